"""The filters of `GET /parcels` and `GET /shipping_methods`."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from django.db.models import QuerySet
from django.utils.dateparse import parse_date, parse_datetime
from django_countries import countries
from rest_framework.exceptions import ValidationError

from carriers.methods import EVERYWHERE, ShippingMethod
from parcels.models import Account, Parcel, SenderAddress
from parcels.query import identifiers, small_integer, word

_EXACT = ("tracking_number", "external_reference", "order_number")
_SINCE = {"updated_after": "date_updated__gt", "announced_after": "date_announced__gt"}


def filter_parcels(parcels: QuerySet[Parcel], parameters: Mapping[str, str]) -> QuerySet[Parcel]:
    """Apply the query's filters.

    Raises:
        ValidationError: a value can't be read.
    """
    for name in _EXACT:
        if text := word(parameters, name):
            parcels = parcels.filter(**{name: text})
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
        if value is not None:
            # In UTC here already: the first and the last day of the calendar overflow on the way.
            value = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        value = None
    if value is None:
        raise ValidationError({field: ["An ISO 8601 date is needed."]})
    return value


def method_filter(
    account: Account, parameters: Mapping[str, str]
) -> Callable[[ShippingMethod], bool]:
    """Return the test that a shipping method must pass.

    Postal codes and `is_return` are accepted and exclude nothing: our carriers have no zones, and
    each takes returns.

    Raises:
        ValidationError: a value can't be read, or is not the account's.
    """
    for name in ("from_postal_code", "to_postal_code"):
        word(parameters, name)
    if parameters.get("is_return", "").lower() not in {"", "0", "1", "true", "false"}:
        raise ValidationError({"is_return": ["Must be true or false."]})
    origin = _origin(account, parameters)
    to_country = parameters.get("to_country", "")
    target = to_country.upper()
    if target and not (to_country.isascii() and countries.alpha2(target) == target):
        raise ValidationError({"to_country": ["A two-letter country code is needed."]})
    to_service_point = small_integer(parameters, "service_point_id") is not None

    def fits(method: ShippingMethod) -> bool:
        return (
            (not target or target in method.countries)
            and (not origin or origin in EVERYWHERE)
            and (not to_service_point or method.service_point_input != "none")
        )

    return fits


def _origin(account: Account, parameters: Mapping[str, str]) -> str:
    """Return the sender country of the query; empty if it has none."""
    if parameters.get("sender_address") == "all":
        return ""
    address_id = small_integer(parameters, "sender_address")
    if address_id is None:
        return ""
    address = SenderAddress.objects.filter(account=account, pk=address_id).first()
    if address is None:
        raise ValidationError({"sender_address": ["There is no such sender address."]})
    return address.country
