"""The filters of `GET /parcels`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from django.db.models import QuerySet
from django.utils.dateparse import parse_date, parse_datetime
from rest_framework.exceptions import ValidationError

from parcels.models import Parcel
from parcels.query import identifiers, small_integer
from parcels.serializers import check_texts

_EXACT = ("tracking_number", "external_reference", "order_number")
_SINCE = {"updated_after": "date_updated__gt", "announced_after": "date_announced__gt"}


def filter_parcels(parcels: QuerySet[Parcel], parameters: Mapping[str, str]) -> QuerySet[Parcel]:
    """Apply the query's filters.

    Raises:
        ValidationError: a value can't be read.
    """
    for name in _EXACT:
        if value := parameters.get(name):
            check_texts(value)
            parcels = parcels.filter(**{name: value})
    for name, lookup in _SINCE.items():
        if value := parameters.get(name):
            parcels = parcels.filter(**{lookup: moment(value, name)})
    status = small_integer(parameters, "parcel_status")
    if status is not None:
        parcels = parcels.filter(status=status)
    if value := parameters.get("ids"):
        parcels = parcels.filter(pk__in=identifiers(value, "ids"))
    return parcels


def moment(text: str, field: str) -> datetime:
    """Read an ISO date or time; without a zone it is UTC."""
    # A "+" of the zone arrives as a space where the client didn't quote it.
    text = text.replace(" ", "+") if "T" in text else text
    try:
        value = parse_datetime(text)
        if value is None and (day := parse_date(text)):
            value = datetime(day.year, day.month, day.day, tzinfo=UTC)
    except ValueError:
        value = None
    if value is None:
        raise ValidationError({field: ["An ISO 8601 date is needed."]})
    return value if value.tzinfo else value.replace(tzinfo=UTC)
