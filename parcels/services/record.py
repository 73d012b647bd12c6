"""Record what a carrier said, under the fence that the claim gave.

Whoever lost the row meanwhile changes nothing: what the carrier gave is kept beside it as
evidence, and reconciliation decides. A label is never thrown away.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from carriers import registry
from carriers.outcomes import Announced, NotSent, Outcome, Refused, Throttled, Unknown
from parcels import metrics
from parcels.models import Announcement, Attempt, Document, Parcel, State
from parcels.services import faults
from parcels.services.clock import DatabaseNow
from parcels.services.holds import release_holds
from parcels.services.wake import wake_after_commit
from parcels.services.webhooks import write_event as write_webhook_event
from parcels.statuses import Status

ERROR_LENGTH = 500


def record(
    *,
    announcement: Announcement,
    outcome: Outcome,
    duration: float,
    next_state: State,
    delay: float = 0,
    kind: str = "announce",
) -> bool:
    """Write the outcome and release who waits; False when the fence was no longer ours.

    `next_state` is what the outcome means for the row; `delay` (seconds) when it is due again;
    `duration` the call's length in seconds.
    """
    with transaction.atomic():
        ours = _change_row(announcement, outcome, next_state, delay)
        attempt = _attempt(announcement, outcome, duration, kind, ours)
        if ours and next_state in _PARCEL_CHANGES:
            _change_parcel(announcement, outcome, next_state)
        elif not ours and isinstance(outcome, Announced):
            _store_documents(announcement.parcel_id, outcome, attempt)
        faults.passing("before_commit")
    faults.passing("after_commit")
    metrics.announcement_tried(announcement.carrier, kind, outcome_class(outcome), duration)
    if ours and next_state in _PARCEL_CHANGES:
        release_holds(announcement.pk)
    return ours


def _change_row(
    announcement: Announcement, outcome: Outcome, next_state: State, delay: float
) -> bool:
    """Change the row if the fence still holds.

    A sweeper that found our lease run out has made it unknown without raising the fence: as long
    as nobody has claimed it since, our word is still the best there is.
    """
    due = DatabaseNow(delay)
    row = Announcement.objects.filter(pk=announcement.pk)
    if not faults.is_off("fence"):
        row = row.filter(fence=announcement.fence, state__in=[State.ANNOUNCING, State.UNKNOWN])
    return bool(
        row.update(
            state=next_state,
            lease_until=None,
            run_at=due,
            wake_at=due,
            carrier_id=outcome.carrier_id if isinstance(outcome, Announced) else "",
            error=error_text(announcement, outcome),
            date_ended=timezone.now() if next_state in _PARCEL_CHANGES else None,
        )
    )


def error_text(announcement: Announcement, outcome: Outcome) -> str:
    """Return what went wrong in the dialect's words; empty for a label."""
    name = registry.carrier(announcement.carrier).name
    match outcome:
        case Announced():
            return ""
        case Refused(message=message):
            text = f"{name} service error: {message}"
        case Throttled():
            text = f"{name} service error: too many requests"
        case NotSent(reason=reason, detail=detail) | Unknown(reason=reason, detail=detail):
            text = f"{name} service error: {detail or reason}"
    return text[:ERROR_LENGTH]


def _attempt(
    announcement: Announcement, outcome: Outcome, duration: float, kind: str, ours: bool
) -> Attempt:
    label = outcome if isinstance(outcome, Announced) else None
    return Attempt.objects.create(
        announcement=announcement,
        kind=kind,
        fence=announcement.fence,
        sent_at=announcement.sent_at,
        duration=round(duration, 4),
        outcome=outcome_class(outcome),
        detail=reason_of(outcome)[:ERROR_LENGTH],
        carrier_id=label.carrier_id if label else "",
        tracking_number=label.tracking_number if label else "",
        recorded=ours,
    )


def outcome_class(outcome: Outcome) -> str:
    """Return announced, refused, throttled, not_sent or unknown."""
    return {
        Announced: "announced",
        Refused: "refused",
        Throttled: "throttled",
        NotSent: "not_sent",
        Unknown: "unknown",
    }[type(outcome)]


def reason_of(outcome: Outcome) -> str:
    """Return a short reason without the carrier's free text, which may repeat an address."""
    match outcome:
        case Refused(code=code):
            return code
        case NotSent(reason=reason) | Unknown(reason=reason):
            return reason
    return ""


# A row in one of these has ended, and its parcel says so.
_PARCEL_CHANGES = {
    State.ANNOUNCED: Status.READY_TO_SEND,
    State.FAILED: Status.ANNOUNCEMENT_FAILED,
}


def _change_parcel(announcement: Announcement, outcome: Outcome, next_state: State) -> None:
    now = timezone.now()
    changes: dict[str, object] = {"date_updated": now}
    if isinstance(outcome, Announced):
        changes |= {
            "tracking_number": outcome.tracking_number,
            "date_announced": now,
            "carrier_error": "",
        }
        _store_documents(announcement.parcel_id, outcome, None)
    else:
        changes["carrier_error"] = error_text(announcement, outcome)
    parcel = Parcel.objects.filter(pk=announcement.parcel_id)
    status = _PARCEL_CHANGES[next_state]
    if parcel.exclude(status=Status.CANCELLATION_REQUESTED).update(status=status, **changes):
        write_event(announcement, status, now)
    else:
        _end_cancelled(announcement, changes, now, next_state)


def _end_cancelled(
    announcement: Announcement, changes: dict[str, object], now: datetime, next_state: State
) -> None:
    """End the announcement of a parcel whose cancellation was asked for meanwhile.

    A label that was bought is voided at once; where none was, the parcel is cancelled.
    """
    parcel = Parcel.objects.filter(pk=announcement.parcel_id)
    if next_state == State.ANNOUNCED:
        parcel.update(**changes)
        wake_after_commit([announcement], "void")
    else:
        parcel.update(status=Status.CANCELLED, date_cancel_requested=None, **changes)
        write_event(announcement, Status.CANCELLED, now)


def write_event(announcement: Announcement, status: Status, now: datetime) -> None:
    """Write the status change to the outbox, in the caller's transaction."""
    write_webhook_event(
        account_id=announcement.account_id,
        parcel_id=announcement.parcel_id,
        status=status,
        at=now,
    )


def _store_documents(parcel_id: int, outcome: Announced, attempt: Attempt | None) -> None:
    Document.objects.bulk_create(
        Document(
            parcel_id=parcel_id,
            type=document.kind,
            format=document.format,
            content=document.content,
            attempt=attempt,
        )
        for document in outcome.documents
    )


def mark_sent(announcement: Announcement, window: float) -> bool:
    """Pass the send guard: write `sent_at` under our fence, and count the try.

    False when the row is no longer ours, or when more than `window` seconds have passed since the
    claim: this process was paused, and somebody else may have taken over.
    """
    passed = Announcement.objects.filter(
        pk=announcement.pk,
        fence=announcement.fence,
        state__in=[State.ANNOUNCING, State.UNKNOWN],
        claimed_at__gte=DatabaseNow(-window),
    ).update(sent_at=DatabaseNow(), tries=F("tries") + 1)
    if passed:
        announcement.sent_at = timezone.now()
        announcement.tries += 1
    return bool(passed)


def hand_back(announcement: Announcement, delay: float, error: str = "") -> None:
    """Give back a claim whose call was never sent: pending again, `delay` seconds from now."""
    Announcement.objects.filter(
        pk=announcement.pk, fence=announcement.fence, state=State.ANNOUNCING
    ).update(
        state=State.PENDING,
        lease_until=None,
        sent_at=None,
        run_at=DatabaseNow(delay),
        wake_at=DatabaseNow(delay),
        error=error[:ERROR_LENGTH],
    )
