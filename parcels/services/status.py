"""Set a parcel's status: conditionally, with its webhook event and its history.

The only way, but for the first status of a parcel that is made or changed: nobody was told of
another before.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Q
from django.utils import timezone

from parcels.models import Parcel, TrackingEvent
from parcels.services.webhooks import write_event
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
    parcel: Parcel,
    sources: Q,
    status: int,
    *,
    carrier_at: datetime | None = None,
    **changes: Any,
) -> bool:
    """Set the status if the parcel still matches `sources`, there and here; False when it doesn't.

    Call it in a transaction: the event is written with it. `changes` are more columns to set;
    `carrier_at` is when the carrier says that it happened.
    """
    now = timezone.now()
    if status in _CANCELLATION_ENDS:
        changes["date_cancel_requested"] = None
    moved = Parcel.objects.filter(sources, pk=parcel.pk).update(
        status=status, date_updated=now, **changes
    )
    if moved:
        parcel.status, parcel.date_updated = status, now
        for name, value in changes.items():
            setattr(parcel, name, value)
        if status in _CANCELLATION and carrier_at is None:
            TrackingEvent.objects.create(
                parcel=parcel,
                carrier=parcel.carrier,
                tracking_number=parcel.tracking_number,
                status=status,
                message=Status(status).label,
                at=now,
            )
        write_event(
            account_id=parcel.account_id,
            parcel_id=parcel.pk,
            status=status,
            at=now,
            carrier=carrier_at,
        )
    return bool(moved)
