"""Void a label that was bought, because its parcel is being cancelled.

As with announcing, the row is the truth: claimed by a conditional UPDATE with a lease, the carrier
called without any transaction, the result recorded under the fence. Asking twice is harmless: a
label is voided once, and a lost answer is cleared up by asking the carrier what it still holds.
"""

from __future__ import annotations

from datetime import timedelta
from time import monotonic

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from carriers import transport
from carriers.base import Purchase
from carriers.outcomes import Absent, Refused, Voided, VoidResult
from parcels.models import Announcement, Attempt, Parcel, State
from parcels.services import protect
from parcels.services.announce import Job, enter, job_for
from parcels.services.clock import DatabaseNow
from parcels.services.record import ERROR_LENGTH, outcome_class, reason_of
from parcels.services.status import move, settle
from parcels.statuses import Status

CANCELLING = (Status.CANCELLATION_REQUESTED, Status.SUBMITTING_CANCELLATION)
# Seconds until a carrier that gave no answer is asked again: cancelling is in no hurry, and it
# must not take an ailing carrier's room from announcements.
AGAIN = 60
# Seconds between two wake-ups of one cancellation whose worker may be busy.
REWAKE = 30
ROWS_AT_ONCE = 200


def void(announcement_id: int) -> None:
    """Ask the carrier to void the label; does nothing when that isn't wanted, or not ours to do."""
    job = _claim(announcement_id)
    if job is not None:
        delay = enter(job)
        connection.close()
        if delay is None:
            result, duration = _call(job)
            _record(job, result, duration)
        else:
            _put_off(job, delay)
    connection.close()


def _call(job: Job) -> tuple[VoidResult, float]:
    """Call the carrier within the permission that was given; return the seconds it took, too."""
    started = monotonic()
    result: VoidResult | None = None
    try:
        result = _ask(job)
    finally:
        duration = monotonic() - started
        permission, job.permission = job.permission, None
        if permission is not None:
            protect.leave(permission, result, duration, buys=False)
    return result, duration


def _put_off(job: Job, delay: float) -> None:
    """Let the sweeper wake it again in `delay` seconds: the carrier has no room, or is out."""
    Announcement.objects.filter(pk=job.announcement.pk, fence=job.announcement.fence).update(
        lease_until=None, wake_at=DatabaseNow(delay)
    )


def _claim(announcement_id: int) -> Job | None:
    free = Q(lease_until=None) | Q(lease_until__lte=DatabaseNow())
    rows = Announcement.objects.filter(
        free, pk=announcement_id, state=State.ANNOUNCED, parcel__status__in=CANCELLING
    )
    with transaction.atomic():
        lease = DatabaseNow(settings.ANNOUNCEMENT_LEASE)
        if not rows.update(lease_until=lease, wake_at=lease, fence=F("fence") + 1):
            return None
        job = job_for(Announcement.objects.get(pk=announcement_id))
        move(
            job.parcel, [Status.CANCELLATION_REQUESTED], Status.SUBMITTING_CANCELLATION
        )  # a second try finds it there already
    return job


def _ask(job: Job) -> VoidResult:
    purchase = Purchase(
        job.announcement.reference, job.announcement.carrier_id, job.parcel.tracking_number
    )
    result = transport.perform(
        job.carrier.void(purchase, job.consignment.credentials),
        job.url,
        settings.CARRIER_CALL_DEADLINE,
        settings.CARRIER_CONNECT_TIMEOUT,
    )
    if isinstance(result, Refused) and job.carrier.repeats == "lookup" and _unsure(job):
        return _look_up(job, result)
    return result


def _unsure(job: Job) -> bool:
    """Tell whether an earlier try may have voided the label: it got no answer."""
    tries = Attempt.objects.filter(announcement=job.announcement, kind="void", outcome="unknown")
    found = tries.exists()
    connection.close()
    return found


def _look_up(job: Job, refused: Refused) -> VoidResult:
    held = transport.perform(
        job.carrier.lookup(job.announcement.reference, job.consignment.credentials),
        job.url,
        settings.CARRIER_CALL_DEADLINE,
        settings.CARRIER_CONNECT_TIMEOUT,
    )
    return Voided() if isinstance(held, Absent) else refused


def _record(job: Job, result: VoidResult, duration: float) -> None:
    with transaction.atomic():
        voided = isinstance(result, Voided)
        ours = Announcement.objects.filter(
            pk=job.announcement.pk, fence=job.announcement.fence, state=State.ANNOUNCED
        ).update(
            state=State.VOIDED if voided else State.ANNOUNCED,
            lease_until=None,
            wake_at=DatabaseNow(AGAIN),
        )
        _note(job, result, duration, bool(ours))
        if not ours:
            return
        if voided:
            settle(job.parcel, [*CANCELLING, Status.CANCELLATION_FAILED], Status.CANCELLED)
        elif isinstance(result, Refused):
            message = f"{job.carrier.name} service error: {result.message}"[:ERROR_LENGTH]
            settle(job.parcel, CANCELLING, Status.CANCELLATION_FAILED, carrier_error=message)


def _note(job: Job, result: VoidResult, duration: float, ours: bool) -> None:
    Attempt.objects.create(
        announcement=job.announcement,
        kind="void",
        fence=job.announcement.fence,
        duration=round(duration, 4),
        outcome="voided" if isinstance(result, Voided) else outcome_class(result),
        detail="" if isinstance(result, Voided) else reason_of(result)[:ERROR_LENGTH],
        carrier_id=job.announcement.carrier_id,
        tracking_number=job.parcel.tracking_number,
        recorded=ours,
    )


def due_voids() -> list[tuple[int, str]]:
    """Return id and carrier of the labels whose voiding is due, and note when it would be next."""
    rows = list(due_announcements().values_list("pk", "carrier")[:ROWS_AT_ONCE])
    if rows:
        Announcement.objects.filter(pk__in=[pk for pk, _ in rows]).update(
            wake_at=DatabaseNow(REWAKE)
        )
    return rows


def due_announcements() -> QuerySet[Announcement]:
    """Return those whose label is to be voided now.

    A range, not "is not null", and no join: else SQLite walks through every announcement.
    """
    cancelling = Parcel.objects.filter(
        date_cancel_requested__lte=timezone.now(), status__in=CANCELLING
    )
    return Announcement.objects.filter(
        parcel__in=cancelling.values("pk"), state=State.ANNOUNCED, wake_at__lte=DatabaseNow()
    )


def give_up() -> int:
    """End cancellations that no carrier has answered within the maximum age; return how many."""
    before = timezone.now() - timedelta(seconds=settings.ANNOUNCEMENT_MAX_AGE)
    overdue = Parcel.objects.filter(status__in=CANCELLING, date_cancel_requested__lte=before)
    ended = 0
    for parcel in overdue[:ROWS_AT_ONCE]:
        with transaction.atomic():
            message = "The carrier never said whether it cancelled this label."
            ended += settle(parcel, CANCELLING, Status.CANCELLATION_FAILED, carrier_error=message)
    return ended
