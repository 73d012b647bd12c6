"""Labels in addition to the one that is kept: each is a row, voided by the sweeper until it is
gone."""

import logging
from collections.abc import Iterable, Sequence
from datetime import timedelta
from time import monotonic
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from carriers.backoff import was_turned_away
from carriers.messages import Purchase
from carriers.outcomes import (
    Absent,
    Announced,
    Found,
    LookupResult,
    NotSent,
    Refused,
    Unknown,
    Voided,
    VoidResult,
)
from parcels import metrics
from parcels.books.compare import Extra, Ours, ours_of
from parcels.models import (
    Announcement,
    Attempt,
    Document,
    SpareLabel,
    SpareState,
    State,
    TrackingEvent,
)
from parcels.models.announcement import OPEN
from parcels.services.announcement_sql import calls_about
from parcels.services.call_and_wait import call_carrier, job_for
from parcels.services.clock import DatabaseNow, StatementNow, Waited
from parcels.services.ending import note_attempt
from parcels.services.job import Job
from parcels.services.next_state import settling

log = logging.getLogger(__name__)

# Seconds until a spare that could not be settled is tried again: it isn't urgent, and must not use
# a slow carrier's slots, which announcements need.
AGAIN = 60.0
# If the carrier refuses to void, a person must act: it shows on the metric, and is tried each hour.
REFUSED_AGAIN = 3600.0
# Seconds after which a list can't lag behind a void any more.
LISTED_AGAIN = 3600.0
ROWS_AT_ONCE = 20


def note_spares(extra: Iterable[Extra], source: str, attempt: Attempt | None = None) -> int:
    """Write down live labels beside the announcements' own; return how many are to be settled.

    `source` is where they were seen: answer, lookup, late_look or invoice; `attempt` the one that
    brought them. One that was noted before is left as it is; one that was closed, and is listed
    anyway an hour later, is to be settled once more: the carrier called it gone, or it was kept as
    the label of an announcement that was voided since.
    """
    wanted = {(each.ours.announcement, each.sold.tracking_number): each for each in extra}
    if not wanted:
        return 0
    noted = SpareLabel.objects.filter(announcement__in={pk for pk, _ in wanted})
    before = timezone.now() - timedelta(seconds=LISTED_AGAIN * settings.TIME_SCALE)
    reopened = noted.filter(
        state__in=(SpareState.GONE, SpareState.KEPT),
        date_ended__lt=before,
        tracking_number__in={number for _, number in wanted},
    ).update(state=SpareState.OPEN, run_at=DatabaseNow(), source=source, date_ended=None)
    for known in noted.values_list("announcement_id", "tracking_number"):
        wanted.pop(known, None)
    for each in wanted.values():
        log.error(
            "%s: label %s was sold in addition to ours (%s) and will be voided",
            each.ours.reference,
            each.sold.tracking_number,
            source,
        )
        metrics.SECOND_LABELS.labels(source).inc()
    SpareLabel.objects.bulk_create(
        [
            SpareLabel(
                announcement_id=each.ours.announcement,
                attempt=attempt,
                carrier_id=each.sold.carrier_id,
                tracking_number=each.sold.tracking_number,
                source=source,
            )
            for each in wanted.values()
        ],
        ignore_conflicts=True,
    )
    return reopened + len(wanted)


def extras(announcement: Announcement, labels: Iterable[Announced]) -> list[Extra]:
    """Return labels under its reference as what may not be its own."""
    ours = Ours(announcement.reference, announcement.state, "", announcement.pk)
    return [
        Extra(ours, Purchase(announcement.reference, label.carrier_id, label.tracking_number))
        for label in labels
    ]


def keep_spare(
    announcement: Announcement, label: Announced, attempt: Attempt, papers: Sequence[Document]
) -> None:
    """Keep an answer's label that its row can't have, with the attempt and papers as evidence.

    Nothing where it was recorded: the commit was done, and its client told of a lost connection.
    """
    same = {"announcement": announcement, "fence": attempt.fence, "kind": attempt.kind}
    if Attempt.objects.filter(**same, tracking_number=label.tracking_number).exists():
        return
    attempt.save()
    for paper in papers:
        paper.attempt = attempt
    Document.objects.bulk_create(papers)
    note_spares(extras(announcement, [label]), "answer", attempt)


def due_spares() -> list[int]:
    """Return spare labels to be settled now; claims them by moving their moment on."""
    due = SpareLabel.objects.filter(state=SpareState.OPEN, run_at__lte=StatementNow())
    ids = list(due.order_by("run_at").values_list("pk", flat=True)[:ROWS_AT_ONCE])
    later = Waited("date_created", settings.ANNOUNCEMENT_LEASE)
    return [pk for pk in ids if due.filter(pk=pk).update(run_at=later)]


def settle_spare(spare_id: int) -> None:
    """Keep the label where it is the announcement's own after all, else have it voided."""
    spare = SpareLabel.objects.select_related("announcement__parcel").get(pk=spare_id)
    announcement = spare.announcement
    label = Purchase(announcement.reference, spare.carrier_id, spare.tracking_number)
    own = ours_of(announcement).has(label)
    if announcement.state in OPEN:
        _put_off(spare, AGAIN * settings.TIME_SCALE, "its announcement has not ended")
    elif own and announcement.state == State.ANNOUNCED:
        _close(spare, SpareState.KEPT)
    elif own and announcement.state == State.VOIDED and spare.source in ("answer", "lookup"):
        _close(spare, SpareState.GONE)  # with the row's own; a later list would show it still there
    else:
        _void(spare, label)
    connection.close()


def _void(spare: SpareLabel, label: Purchase) -> None:
    job = job_for(calls_about().get(pk=spare.announcement_id))
    if job is None:
        _put_off(spare, REFUSED_AGAIN * settings.TIME_SCALE, "it can't be prepared: see the log")
        return
    row = SpareLabel.objects.filter(pk=spare.pk)
    row.update(tries=F("tries") + 1)  # before the call: a process that dies in it leaves no attempt
    young = row.filter(date_created__gt=DatabaseNow(-settling(job.carrier)))
    result, duration = call_void(job, label, tries=spare.tries + 1, young=young)
    if was_turned_away(result):
        row.update(tries=F("tries") - 1, run_at=DatabaseNow(result.retry_after))
        return
    with transaction.atomic():
        sold = spare.carrier_id, spare.tracking_number
        note_attempt(job.announcement, "void", result, duration, label=sold)
        if isinstance(result, Voided):
            _close(spare, SpareState.GONE)
        else:
            refused = isinstance(result, Refused)
            delay = REFUSED_AGAIN if refused else AGAIN
            _put_off(spare, delay * settings.TIME_SCALE, type(result).__name__)


def call_void(
    job: Job, purchase: Purchase, *, tries: int, young: QuerySet[Any]
) -> tuple[VoidResult, float]:
    """Ask the carrier to take a label back; a refusal is checked by looking the label up.

    Where the label was voided before and the answer was lost, the carrier refuses: what it doesn't
    list any more is voided. A carrier that can't be asked is believed to have voided at a try
    whose answer was lost, as a label that is void must not be printed. `tries` are the claims of
    this voiding, this one included: a process that died left no attempt. `young` finds the label's
    row while a list need not have it yet.
    """
    credentials = job.consignment.credentials
    # Else the send guard lets no void leave; a login may take its time before it.
    job.guarded_at = monotonic() + settings.CARRIER_CALL_DEADLINE
    result, duration = call_carrier(job, job.carrier.void(purchase, credentials))
    if not isinstance(result, Refused):
        return result, duration
    if job.carrier.repeats != "lookup":
        if result.credentials:
            return result, duration  # this concerns our credentials, not the label
        unsure = not job.changed and _was_unsure(job, purchase, tries)
        return (Voided() if unsure else result), duration
    held, looked = call_carrier(job, job.carrier.lookup(purchase.reference, credentials))
    return _checked(job, purchase, result, held, young), duration + looked


def _checked(
    job: Job, purchase: Purchase, refused: Refused, held: LookupResult, young: QuerySet[Any]
) -> VoidResult:
    match held:
        case Found(announced=labels):
            by_id = job.carrier.voids_by_id  # some lists spell a number in another way
            gone = not any(
                label.tracking_number == purchase.tracking_number
                or (by_id and label.carrier_id == purchase.carrier_id)
                for label in labels
            )
        case Absent():
            gone = not job.changed  # other credentials list nothing, whatever was sold
        case NotSent(reason=reason):  # the void was sent
            return Unknown(reason, "a refusal that could not be checked")
        case _:
            return held
    if gone and young.exists():
        return Unknown("unsettled", "a label so young need not be listed yet")
    lost = _earlier(job, purchase).filter(
        outcome="unknown", date_created__gt=DatabaseNow(-settling(job.carrier))
    )
    if not (gone or job.changed) and lost.exists():
        return Unknown("unsettled", "a list need not show yet what a void without answer did")
    return Voided() if gone else refused


def _earlier(job: Job, purchase: Purchase) -> QuerySet[Attempt]:
    return Attempt.objects.filter(
        announcement=job.announcement,
        kind="void",
        tracking_number=purchase.tracking_number,
    )


def _was_unsure(job: Job, purchase: Purchase, tries: int) -> bool:
    """Tell whether an earlier try has voided the label, or may have: its answer was lost.

    A label that the carrier's feed shows on its way was refused for that, and no answer was lost.
    """
    earlier = list(_earlier(job, purchase).values_list("outcome", flat=True))
    moved = TrackingEvent.objects.filter(
        Q(parcel=job.announcement.parcel) | Q(parcel=None),
        tracking_number=purchase.tracking_number,
        seq__isnull=False,
    )
    is_moving = moved.exists()
    connection.close()
    # A process whose claim was over was told so.
    if "voided" in earlier:
        return True
    # Each try came after the end. Where attempts may be dropped, one that is missing says nothing.
    ended = job.announcement.date_ended
    if ended and ended < timezone.now() - timedelta(seconds=settings.HISTORY_KEEP):
        return False
    return not is_moving and ("unknown" in earlier or len(earlier) < tries - 1)


def still_open(spare: SpareLabel) -> QuerySet[SpareLabel]:
    """Return the row, unless a person has settled it meanwhile."""
    return SpareLabel.objects.filter(pk=spare.pk, state=SpareState.OPEN)


def _close(spare: SpareLabel, state: SpareState) -> None:
    still_open(spare).update(state=state, error="", date_ended=timezone.now())


def _put_off(spare: SpareLabel, delay: float, error: str) -> None:
    still_open(spare).update(run_at=DatabaseNow(delay), error=error)


def count_open() -> int:
    """Set the metric to alarm on: spare labels that the carrier has not taken back, by carrier.

    Return how many there are.
    """
    carriers = list(
        SpareLabel.objects.filter(state=SpareState.OPEN).values_list(
            "announcement__carrier", flat=True
        )
    )
    metrics.count_spares(carriers)
    return len(carriers)
