"""Record a carrier's answer, under the fence of the claim.

A process that has lost the row changes nothing: its label is kept as a spare label, which is kept
or voided when the row has ended. A label is never discarded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Coalesce

from carriers import registry
from carriers.backoff import Decision
from carriers.outcomes import Announced, NotSent, Outcome, Refused, Throttled, Unknown
from parcels import faults, metrics
from parcels.models import Announcement, Attempt, Document, State
from parcels.papers.files import store
from parcels.services.attempts import attempt_of, outcome_class
from parcels.services.call import Job
from parcels.services.clock import DatabaseNow
from parcels.services.ending import OURS, Ending, end_rows, tell_parcels
from parcels.services.holds import release_holds
from parcels.services.next_state import after_buying
from parcels.services.rows import inserting
from parcels.services.spares import extras, note_spares

ERROR_LENGTH = 500


@dataclass(frozen=True, slots=True)
class Result:
    """What a call brought; `duration` in seconds.

    `others` are labels that the carrier's list has beside the outcome's.
    """

    job: Job
    outcome: Outcome
    duration: float
    kind: str = "announce"
    others: Sequence[Announced] = ()


def record(results: Sequence[Result]) -> None:
    """Write these outcomes in one transaction, and release the clients that wait for them."""
    attempts: list[Attempt] = []
    documents: list[Document] = []
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
        transaction.on_commit(partial(faults.passing, "after_commit"))
        endings, moved_on = _change_rows(results)
        ended = [each.announcement.pk for each in endings]
        for each in results:
            ours = each.job.announcement.pk in {*ended, *moved_on}
            _keep(each, papers.get(each.job.announcement.pk, []), attempts, documents, ours=ours)
        with inserting(attempts, documents):
            tell_parcels(endings)
        faults.passing("before_commit")
        if ended:
            known = [each.announcement.parcel for each in endings]
            transaction.on_commit(partial(release_holds, ended, known), robust=True)
    for each in results:
        code = each.job.carrier.code
        metrics.TRIES.labels(code, each.kind, outcome_class(each.outcome)).inc()
        metrics.TRY_SECONDS.labels(code).observe(each.duration)


def _change_rows(results: Sequence[Result]) -> tuple[list[Ending], set[int]]:
    """Give each row that is ours its next state; return those ended, and the ids that continue."""
    moved_on: set[int] = set()
    endings: list[Ending] = []
    for each in results:
        announcement, outcome = each.job.announcement, each.outcome
        decision = after_buying(each.job, outcome)
        if isinstance(outcome, Announced):
            label = outcome.carrier_id, outcome.tracking_number
            endings.append(Ending(announcement, State.ANNOUNCED, *label))
        elif decision.state == State.FAILED:
            error = error_text(announcement, outcome)
            endings.append(Ending(announcement, State.FAILED, error=error))
        elif _goes_on(announcement, outcome, decision):
            moved_on.add(announcement.pk)
    return end_rows(endings), moved_on


def _goes_on(announcement: Announcement, outcome: Outcome, decision: Decision) -> bool:
    unknown = {
        "call_ended_at": DatabaseNow(),
        "unknown_since": Coalesce("unknown_since", DatabaseNow()),
    }
    changes = unknown if isinstance(outcome, Unknown) or decision.state != State.PENDING else {}
    error = error_text(announcement, outcome)
    return move_on(announcement, State(decision.state), decision.delay, error=error, **changes)


def _keep(
    result: Result,
    papers: list[Document],
    attempts: list[Attempt],
    documents: list[Document],
    *,
    ours: bool,
) -> None:
    """Have the attempt and its papers written; at once where they are evidence of a spare."""
    announcement, outcome = result.job.announcement, result.outcome
    attempt = attempt_of(announcement, result.kind, outcome, result.duration, recorded=ours)
    if isinstance(outcome, Announced) and not ours:
        attempt.save()
        for paper in papers:
            paper.attempt = attempt
        Document.objects.bulk_create(papers)
        note_spares(extras(announcement, [outcome]), "answer", attempt)
    else:
        attempts.append(attempt)
        documents += papers
    if result.others:
        note_spares(extras(announcement, result.others), result.kind)


def move_on(announcement: Announcement, state: State, delay: float, **changes: Any) -> bool:
    """Give the row back in a state that is no end, due in `delay` seconds; under our fence."""
    row = Announcement.objects.filter(pk=announcement.pk)
    if not faults.is_off("fence"):
        row = row.filter(fence=announcement.fence, state__in=OURS)
    due = DatabaseNow(delay)
    moved = row.update(
        **{"state": state, "lease_until": None, "claims": 0, "run_at": due, "wake_at": due}
        | changes
    )  # fmt: skip
    return bool(moved)


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
