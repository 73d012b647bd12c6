"""Set a parcel's status: conditionally, with its webhook event and its history.

The only way, but for the first status of a parcel that is made or changed: nobody was told of
another before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from parcels.models import Parcel, TrackingEvent, WebhookEndpoint, WebhookEvent
from parcels.services.rows import change_rows
from parcels.services.wake import WEBHOOK_QUEUE, send
from parcels.statuses import Status

# A cancellation's steps. No carrier's feed tells of them, so they are written into the history.
_CANCELLATION = (
    Status.CANCELLATION_REQUESTED,
    Status.SUBMITTING_CANCELLATION,
    Status.CANCELLED,
    Status.CANCELLATION_FAILED,
)
_CANCELLATION_ENDS = (Status.CANCELLED, Status.CANCELLATION_FAILED)
_FIELDS = {field.name: field for field in Parcel._meta.concrete_fields}
# Whether a webhook is to be told: an account without any costs no statement for events. The name
# `account_id` is the parcel's: SQLite knows no `own` here.
_LISTENS = (
    "EXISTS (SELECT 1 FROM (SELECT account_id AS listener FROM"  # noqa: S608 # no input in it
    f" {WebhookEndpoint._meta.db_table} WHERE is_active) AS active WHERE listener = account_id)"
)


def among(statuses: Iterable[int]) -> str:
    """Return the condition, for `set_status`, that a parcel has one of these."""
    return f"own.status IN ({', '.join(str(int(status)) for status in statuses)})"


def set_status(
    parcels: Sequence[Parcel],
    sources: str,
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
    # After what was before: receivers tell by it which of two events is the newer.
    now = max(
        timezone.now(), *(parcel.date_updated + timedelta(milliseconds=1) for parcel in parcels)
    )
    if status in _CANCELLATION_ENDS:
        changes["date_cancel_requested"] = None
    written = changes | {"status": status, "date_updated": now}
    own = tracking_numbers or {}
    changed = change_rows(
        Parcel,
        [{"id": parcel.pk, "number": own.get(parcel.pk)} for parcel in parcels],
        ", ".join([f"{name} = %s" for name in written])
        + (", tracking_number = given.number" if own else ""),
        sources,
        set_values=[_FIELDS[name].get_db_prep_save(written[name], connection) for name in written],
        returning=_LISTENS,
    )
    moved = [parcel for parcel in parcels if parcel.pk in changed]
    for parcel in moved:
        for name, value in written.items():
            setattr(parcel, name, value)
        if tracking_numbers:
            parcel.tracking_number = tracking_numbers[parcel.pk]
    if status in _CANCELLATION and carrier_at is None:
        TrackingEvent.objects.bulk_create(_step(parcel, status, now) for parcel in moved)
    events = [
        WebhookEvent(
            account_id=parcel.account_id,
            parcel_id=parcel.pk,
            status=status,
            date_created=now,
            carrier_changed_at=carrier_at,
        )
        for parcel in moved
        if changed[parcel.pk]
    ]
    WebhookEvent.objects.bulk_create(events)
    for event in events:
        wake = partial(send, "spread_event", [str(event.pk)], WEBHOOK_QUEUE)
        transaction.on_commit(wake, robust=True)
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
