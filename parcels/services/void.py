"""Void a label that was bought, because its parcel is being cancelled.

As with announcing, the row is the source of truth: it is claimed by a conditional UPDATE with a
lease, the carrier is called outside any transaction, the result is recorded under the fence. Asking
twice is harmless: a label is voided once, and after a lost answer the carrier is asked which labels
it still has.
"""

from datetime import timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from carriers import registry
from carriers.backoff import was_turned_away
from carriers.messages import Purchase
from carriers.outcomes import NotSent, Refused, Voided, VoidResult
from parcels.models import Announcement, Parcel, State, TrackingEvent
from parcels.services.announcement_sql import calls_about
from parcels.services.call_and_wait import job_for
from parcels.services.clock import DatabaseNow, StatementNow, Waited
from parcels.services.ending import CANCELLING, among, note_attempt, set_status
from parcels.services.job import Job
from parcels.services.next_state import error_text, settling
from parcels.services.spares import call_void
from parcels.services.tracking_feed import follow_newest
from parcels.statuses import Status

# Seconds until a carrier that gave no answer is asked again, at least: cancelling isn't urgent, and
# must not use a slow carrier's slots, which announcements need.
AGAIN = 60
# Seconds between two wake-ups of one cancellation whose worker may be busy, at least.
REWAKE = 30
_REQUESTED = (
    f"(SELECT date_cancel_requested FROM {Parcel._meta.db_table} AS own WHERE own.id = parcel_id)"  # noqa: S608 # no input in it
)
ROWS_AT_ONCE = 200
# Seconds: over any difference of two clocks, as hosts write when a cancellation was requested.
FAR = 86_400
NEVER_SAID = "The carrier never said whether it cancelled this label."
# A cancellation that was tried, and not answered, is given up LONG seconds after its first try at
# the earliest, and after TRIES of them. With fewer, as at a carrier that is out, it takes LONGEST
# times the maximum age.
LONG, TRIES, LONGEST = 3600, 10, 7
REMOVED = "The carrier was removed here: it can't be asked to cancel this label."


def void(announcement_id: int) -> None:
    """Ask the carrier to void the label; does nothing when that isn't wanted, or not ours to do."""
    job = _claim(announcement_id)
    if job is not None:
        row = job.announcement
        purchase = Purchase(row.reference, row.carrier_id, row.parcel.tracking_number)
        own = Announcement.objects.filter(pk=announcement_id)
        young = own.filter(date_ended__gt=DatabaseNow(-settling(job.carrier)))
        _record(job, *call_void(job, purchase, tries=row.claims, young=young))
    connection.close()


def _claim(announcement_id: int) -> Job | None:
    """Claim it by the row's own columns alone.

    PostgreSQL checks these again after waiting for another claimant's lock; of a joined parcel it
    would go on looking at the version from before the wait.
    """
    free = Q(lease_until=None) | Q(lease_until__lte=DatabaseNow())
    rows = Announcement.objects.filter(free, pk=announcement_id, state=State.ANNOUNCED)
    with transaction.atomic():
        # If this process dies the next try waits, too, until its refusal can be checked.
        settled = max(map(settling, registry.CARRIERS.values()))
        lease = DatabaseNow(settings.ANNOUNCEMENT_LEASE + settled)
        if not rows.update(
            lease_until=lease, wake_at=lease, fence=F("fence") + 1, claims=F("claims") + 1
        ):
            return None
        job = job_for(calls_about().get(pk=announcement_id))
        if job is not None:
            parcel = job.announcement.parcel
            asked = among([Status.CANCELLATION_REQUESTED])
            set_status([parcel], asked, Status.SUBMITTING_CANCELLATION)
            # A second try finds it there already.
            if parcel.status == Status.SUBMITTING_CANCELLATION:
                return job
        transaction.set_rollback(True)
        return None


def _record(job: Job, result: VoidResult, duration: float) -> None:
    announcement, parcel = job.announcement, job.announcement.parcel
    turned_away = was_turned_away(result)
    wait = result.retry_after if isinstance(result, NotSent) else 0.0
    # Not before the carrier's list shows what became of this try: its refusal is checked by that.
    again = wait or max(AGAIN * settings.TIME_SCALE, settling(job.carrier))
    with transaction.atomic():
        voided = isinstance(result, Voided)
        ours = Announcement.objects.filter(
            pk=announcement.pk, fence=announcement.fence, state=State.ANNOUNCED
        ).update(
            state=State.VOIDED if voided else State.ANNOUNCED,
            lease_until=None,
            claims=F("claims") - 1 if turned_away else F("claims"),
            wake_at=DatabaseNow(again),
        )
        if turned_away:
            return
        label = announcement.carrier_id, parcel.tracking_number
        note_attempt(announcement, "void", result, duration, label=label, recorded=bool(ours))
        if ours and voided:
            # Whatever was told since, where the cancellation was given up meanwhile: it is void.
            not_yet = f"NOT {among([Status.CANCELLED, Status.CANCELLED_UPSTREAM])}"
            set_status([parcel], not_yet, Status.CANCELLED)
        elif ours and isinstance(result, Refused):
            _fail(parcel, error_text(announcement, result))


def _fail(parcel: Parcel, message: str) -> int:
    """End the cancellation without success, and go on with what the carrier told meanwhile.

    Only from the status that the parcel was read with: a claim may have come in between.
    """
    own = among([parcel.status])
    failed = set_status([parcel], own, Status.CANCELLATION_FAILED, carrier_error=message)
    for each in failed:
        follow_newest(each)
    return len(failed)


def due_voids() -> list[tuple[int, str]]:
    """Return id and carrier of the labels whose voiding is due, and note when it would be next."""
    due = due_announcements().filter(carrier__in=registry.CARRIERS)  # no other queue has readers
    rows = list(due.values_list("pk", "carrier")[:ROWS_AT_ONCE])
    if rows:
        Announcement.objects.filter(pk__in=[pk for pk, _ in rows]).update(
            wake_at=Waited(_REQUESTED, REWAKE)
        )
    return rows


def due_announcements() -> QuerySet[Announcement]:
    """Return those whose label is to be voided now."""
    return cancelling().filter(wake_at__lte=StatementNow())


def cancelling() -> QuerySet[Announcement]:
    """Return those whose label is to be voided.

    A range, not "is not null", and no join: else SQLite walks through every announcement.
    """
    parcels = Parcel.objects.filter(
        status__in=CANCELLING, date_cancel_requested__lte=StatementNow(FAR)
    )
    return Announcement.objects.filter(parcel__in=parcels.values("pk"), state=State.ANNOUNCED)


def give_up() -> int:
    """End cancellations that no carrier has answered within the maximum age; return how many.

    One that was tried waits for `LONG` and `TRIES`: the sweeper may have been away for all of that
    age, and a call may be under way, or its answer lost. Nobody can ask a carrier that was removed:
    there they end `LONG` after their request, as an update may be taken back.
    """
    age, now = timedelta(seconds=settings.ANNOUNCEMENT_MAX_AGE), timezone.now()
    long_ago = now - timedelta(seconds=LONG * settings.TIME_SCALE)
    # Not by attempts: a call under way has none, nor one whose process died.
    begun = TrackingEvent.objects.filter(
        parcel=OuterRef("pk"), status=Status.SUBMITTING_CANCELLATION, at__gt=long_ago
    )
    unsure = Announcement.objects.filter(
        parcel=OuterRef("pk"), state=State.ANNOUNCED, claims__range=(1, TRIES - 1)
    )
    overdue = Parcel.objects.filter(
        ~Exists(begun),
        ~Exists(unsure) | Q(date_cancel_requested__lte=now - LONGEST * age),
        status__in=CANCELLING,
        date_cancel_requested__lte=now - age,
    )
    removed = due_announcements().filter(parcel__date_cancel_requested__lte=long_ago)
    removed = removed.exclude(carrier__in=registry.CARRIERS).select_related("parcel")
    ended = 0
    for parcel in [*overdue[:ROWS_AT_ONCE], *(row.parcel for row in removed[:ROWS_AT_ONCE])]:
        message = NEVER_SAID if parcel.carrier in registry.CARRIERS else REMOVED
        with transaction.atomic():
            ended += _fail(parcel, message)
    return ended
