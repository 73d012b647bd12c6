"""Move a parcel from one status to another: conditionally, with its event and its history."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.utils import timezone

from parcels.models import Parcel, TrackingEvent
from parcels.services.webhooks import write_event
from parcels.statuses import Status


def move(
    parcel: Parcel, sources: Collection[int], status: Status, **changes: datetime | str | None
) -> bool:
    """Set the status if it still is one of `sources`; False when somebody else was first.

    Call it in a transaction: the event is written with it. `changes` are more columns to set.
    """
    now = timezone.now()
    moved = Parcel.objects.filter(pk=parcel.pk, status__in=sources).update(
        status=status, date_updated=now, **changes
    )
    if moved:
        TrackingEvent.objects.create(
            parcel=parcel,
            carrier=parcel.carrier,
            tracking_number=parcel.tracking_number,
            status=status,
            message=status.label,
            at=now,
        )
        write_event(account_id=parcel.account_id, parcel_id=parcel.pk, status=status, at=now)
    return bool(moved)


def settle(parcel: Parcel, sources: Collection[int], status: Status, **changes: str) -> bool:
    """End a cancellation, as `move` does."""
    return move(parcel, sources, status, date_cancel_requested=None, **changes)
