"""Record a carrier's answer, under the fence of the claim.

A process that has lost the row changes nothing: its label is kept as a spare label, which is kept
or voided when the row has ended. A label is never discarded.
"""

import logging
from collections.abc import Sequence
from time import monotonic, sleep

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction

from carriers.outcomes import Announced
from parcels import metrics
from parcels.models import Attempt, Document, State
from parcels.papers.files import store
from parcels.services import protect
from parcels.services.ending import Ending, attempt_of, end_rows, tell_parcels
from parcels.services.job import Result
from parcels.services.next_state import after_buying, error_text, go_on
from parcels.services.rows import inserting, lost_a_race
from parcels.services.spares import extras, keep_spare, note_spares

log = logging.getLogger(__name__)

# What is raised while the database is down, and the seconds between two tries.
DATABASE_AWAY = (OperationalError, InterfaceError)
AGAIN = 1.0


def finish(results: Sequence[Result]) -> Sequence[None]:
    """Give the permissions back, record the outcomes and tell the clients that wait.

    One that can't be recorded blocks no other. While the database is away it tries again until the
    leases are over: not each carrier can be asked what it sold. Closes the connection.
    """
    protect.leave((each.job, each.outcome, each.duration) for each in results)
    gives_up = monotonic() + settings.ANNOUNCEMENT_LEASE - max(each.duration for each in results)
    left = results
    while True:
        try:
            record(left)
            left = ()
        except Exception as error:
            if left := left if _is_away(error) else _each_alone(left):
                log.warning("%d answers to be recorded again: %s", len(left), type(error).__name__)
        finally:
            connection.close()
        if not left or monotonic() + AGAIN > gives_up:
            break
        sleep(AGAIN)
    for each in left:
        log.error("%s: its answer is not recorded", each.job.announcement.reference)
    return [None] * len(results)


def _is_away(error: Exception) -> bool:
    """Distinguish a database that is down from two groups that waited for each other's rows.

    A statement whose time is over counts as down: each of the group might wait as long.
    """
    return isinstance(error, DATABASE_AWAY) and not lost_a_race(error)


def _each_alone(results: Sequence[Result]) -> list[Result]:
    """Record each by itself; return those that are to be tried again."""
    left = []
    for each in results:
        try:
            record([each])
        except DATABASE_AWAY:
            left.append(each)
        except Exception:
            log.exception("%s can't be recorded", each.job.announcement.reference)
    return left


def record(results: Sequence[Result]) -> None:
    """Write these outcomes in one transaction, and release the clients that wait for them."""
    papers = {
        each.job.announcement.pk: [
            Document(
                parcel_id=each.job.announcement.parcel_id,
                type=document.kind,
                format=document.format,
                content=document.content,
            )
            for document in each.outcome.documents
        ]
        for each in results
        if isinstance(each.outcome, Announced)
    }
    if settings.LABELS_IN == "storage":  # before any row says that there is a label
        store([paper for each in papers.values() for paper in each])
    with transaction.atomic():
        endings: list[Ending] = []
        ours: set[int] = set()
        for each in results:
            announcement, outcome = each.job.announcement, each.outcome
            if isinstance(outcome, Announced):
                label = outcome.carrier_id, outcome.tracking_number
                endings.append(Ending(announcement, State.ANNOUNCED, *label))
            elif (decision := after_buying(each.job, outcome)).state == State.FAILED:
                error = error_text(announcement, outcome)
                endings.append(Ending(announcement, State.FAILED, error=error))
            elif go_on(announcement, outcome, decision):
                ours.add(announcement.pk)
        endings = end_rows(endings)
        ours.update(each.announcement.pk for each in endings)
        tried: list[Attempt] = []
        attempts: list[Attempt] = []
        documents: list[Document] = []
        for each in results:
            announcement, outcome = each.job.announcement, each.outcome
            recorded = announcement.pk in ours
            attempt = attempt_of(announcement, each.kind, outcome, each.duration, recorded=recorded)
            tried.append(attempt)
            if isinstance(outcome, Announced) and not recorded:
                keep_spare(announcement, outcome, attempt, papers[announcement.pk])
            else:
                attempts.append(attempt)
                documents += papers.get(announcement.pk, [])
            if each.others:
                note_spares(extras(announcement, each.others), each.kind)
        with inserting(attempts, documents):
            tell_parcels(endings)
    for each, attempt in zip(results, tried, strict=True):
        code = each.job.carrier.code
        metrics.TRIES.labels(code, each.kind, attempt.outcome).inc()
        metrics.TRY_SECONDS.labels(code).observe(each.duration)
