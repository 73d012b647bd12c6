"""Find out how an unknown announcement ended, as its carrier allows. *dedup*: the same reference
again returns the first label. *lookup*: the carrier is asked; another try needs an absence that is
seen twice, after the time for which the carrier may still work on a request that we have given up.
*none*: a person decides; nothing is bought again automatically.
"""

import logging
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from carriers import registry
from carriers.backoff import Decision, was_turned_away
from carriers.messages import Purchase
from carriers.outcomes import Absent, Found, LookupResult, Unknown
from parcels.books.compare import compare, ours_of
from parcels.models import Announcement, State
from parcels.services import protect
from parcels.services.announcement_sql import calls_about
from parcels.services.call_and_wait import buy, call_carrier, job_for
from parcels.services.claim import FATAL, MAX_CLAIMS, claim, guard
from parcels.services.clock import DatabaseNow, StatementNow, Waited
from parcels.services.ending import Ending, end, note_attempt
from parcels.services.job import Job, Result
from parcels.services.next_state import after_lookup, backoff, move_on, put_under_review, settling
from parcels.services.record import finish, record
from parcels.services.spares import note_spares

log = logging.getLogger(__name__)

ROWS_AT_ONCE = 100
# A claim without a call shows nothing of a row that may kill whoever reads its answer.
UNUSED = {"claims": F("claims") - 1}


def reconcile(announcement_id: int) -> None:
    """Reconcile an unknown announcement that is due; does nothing when it isn't, or not ours."""
    for announcement in claim([announcement_id], State.UNKNOWN):
        _reconcile(announcement)
    connection.close()


def _reconcile(announcement: Announcement) -> None:
    reason = _for_a_person(announcement)
    job = None if reason else job_for(announcement)
    if job is not None and job.carrier.repeats == "dedup" and job.changed:
        # To other credentials it would sell a second one.
        job, reason = None, "The contract's credentials were changed after the purchase."
    if reason:
        put_under_review(announcement, reason)
    elif job is None:
        return  # its lease runs out, and the claim counts
    elif job.carrier.repeats == "dedup":
        _send_again(job)
    else:
        _look_up(job)


def _for_a_person(announcement: Announcement) -> str:
    """Return why no process can resolve it; empty where one may."""
    if announcement.overdue:
        return "Its maximum age has passed."
    if registry.REPEATS[announcement.carrier] == "none":
        return "The carrier can't be asked what it has sold."
    return FATAL if announcement.claims > MAX_CLAIMS else ""


def _send_again(job: Job) -> None:
    if protect.enter([job]):
        move_on(job.announcement, State.UNKNOWN, 0.0, **UNUSED)
        return
    try:
        passed = guard([job])
    except BaseException:
        protect.leave([(job, None, 0.0)])
        raise
    if not passed:
        move_on(job.announcement, State.UNKNOWN, backoff(job.announcement), **UNUSED)
        return
    connection.close()
    finish([buy(job)])


def _look_up(job: Job) -> None:
    announcement = job.announcement
    result, duration = _ask(job)
    if isinstance(result, Found):
        first, *others = result.announced
        record([Result(job, first, duration, "lookup", others)])
        return
    if was_turned_away(result):
        move_on(announcement, State.UNKNOWN, 0.0, **UNUSED)
        return
    note_attempt(announcement, "lookup", result, duration)
    believed = isinstance(result, Absent) and announcement.settled_for >= settling(job.carrier)
    announcement.absences += believed
    _decide(job, after_lookup(job, result))


def _ask(job: Job) -> tuple[LookupResult, float]:
    told = job.consignment
    return call_carrier(job, job.carrier.lookup(told.reference, told.credentials))


def _decide(job: Job, decision: Decision) -> None:
    announcement = job.announcement
    match decision.state:
        case "failed":  # refused, and then seen twice to be absent
            with transaction.atomic():
                end([Ending(announcement, State.FAILED, error=announcement.error)])
        case "needs_review":
            put_under_review(announcement, decision.reason)
        case "pending":
            fresh: dict[str, Any] = {"sent_at": None, "absences": 0, "repeats": F("repeats") + 1}
            move_on(announcement, State.PENDING, decision.delay, **fresh)
        case _:
            absences = announcement.absences
            move_on(announcement, State.UNKNOWN, decision.delay, absences=absences)


def due_late_looks() -> list[int]:
    """Return announcements that were unknown once and are to be looked at again.

    Claims them by moving the due time: one whose process dies is repeated, ever more seldom.
    """
    due = Announcement.objects.filter(look_at__lte=StatementNow())
    ids = list(due.values_list("pk", flat=True)[:ROWS_AT_ONCE])
    later = Waited("date_ended", settings.ANNOUNCEMENT_LEASE)
    return [pk for pk in ids if due.filter(pk=pk).update(look_at=later)]


def look_again(announcement_id: int) -> None:
    """Check whether a carrier sold a second label after all; such a label is voided.

    A carrier that works on a request for longer than it documents sells after its absence was
    believed.
    """
    row = Announcement.objects.filter(pk=announcement_id)
    announcement = calls_about().get(pk=announcement_id)
    job = job_for(announcement)
    result, duration = _ask(job) if job else (Unknown("unbuildable"), 0.0)
    if isinstance(result, Found | Absent):
        with transaction.atomic():
            note_attempt(announcement, "late_look", result, duration)
            reference = announcement.reference
            sold = result.announced if isinstance(result, Found) else ()
            found = compare(
                [Purchase(reference, each.carrier_id, each.tracking_number) for each in sold],
                {reference: ours_of(announcement)},
            )
            note_spares(found.extra, "late_look")
            done = announcement.late_looks + 1
            rest = settings.LATE_LOOKS[done:]
            look_at = DatabaseNow(rest[0] - settings.LATE_LOOKS[done - 1]) if rest else None
            row.update(late_looks=done, look_at=look_at)
    else:
        age = timezone.now() - (announcement.date_ended or timezone.now())
        over = age > timedelta(seconds=settings.ANNOUNCEMENT_MAX_AGE)
        if over:
            log.warning("%s got no late lookup: %s", announcement.reference, result.reason)
        row.update(look_at=None if over else DatabaseNow(settings.ANNOUNCEMENT_LEASE))
    connection.close()
