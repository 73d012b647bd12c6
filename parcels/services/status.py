"""Set a parcel's status: conditionally, with its webhook event and its history.

The only way, but for the first status of a parcel that is made or changed: nobody was told of
another before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Case, Q, Value, When
from django.utils import timezone

from parcels.models import Parcel, TrackingEvent
from parcels.services.webhooks import write_events
from parcels.statuses import Status

# A cancellation's steps. No carrier's feed tells of them, so they are written into the history.
_CANCELLATION = (
    Status.CANCELLATION_REQUESTED,
    Status.SUBMITTING_CANCELLATION,
    Status.CANCELLED,
    Status.CANCELLATION_FAILED,
)
_CANCELLATION_ENDS = (Status.CANCELLED, Status.CANCELLATION_FAILED)


def set_status(
    parcels: Sequence[Parcel],
    sources: Q,
    status: int,
    tracking_numbers: Mapping[int, str] | None = None,
    *,
    carrier_at: datetime | None = None,
    **changes: Any,
) -> list[Parcel]:
    """Set the status of those that still match `sources`, there and here; return them.

    Call it in a transaction: their events are written with it. `changes` are more columns to set,
    `tracking_numbers` one that each parcel has its own of; `carrier_at` is when the carrier says
    that it happened.
    """
    if not parcels:
        return []
    now = timezone.now()
    if status in _CANCELLATION_ENDS:
        changes["date_cancel_requested"] = None
    written = changes | {"status": status, "date_updated": now}
    own = {}
    if tracking_numbers:
        cases = [When(pk=pk, then=Value(number)) for pk, number in tracking_numbers.items()]
        own = {"tracking_number": cases[0].result if len(cases) == 1 else Case(*cases)}
    rows = Parcel.objects.filter(pk__in=[parcel.pk for parcel in parcels])
    count = rows.filter(sources).update(**written, **own)
    moved = list(parcels)
    if count < len(parcels):
        # By what only this statement has written: the rows are locked until our commit.
        found = rows.filter(status=status, date_updated=now).values_list("pk", flat=True)
        ids = set(found) if count else set()
        moved = [parcel for parcel in parcels if parcel.pk in ids]
    for parcel in moved:
        for name, value in written.items():
            setattr(parcel, name, value)
        if tracking_numbers:
            parcel.tracking_number = tracking_numbers[parcel.pk]
    if status in _CANCELLATION and carrier_at is None:
        TrackingEvent.objects.bulk_create(_step(parcel, status, now) for parcel in moved)
    write_events(moved, status=status, at=now, carrier=carrier_at)
    return moved


def _step(parcel: Parcel, status: int, at: datetime) -> TrackingEvent:
    return TrackingEvent(
        parcel=parcel,
        carrier=parcel.carrier,
        tracking_number=parcel.tracking_number,
        status=status,
        message=Status(status).label,
        at=at,
    )
