"""Find out what became of an unknown announcement, by what its carrier can do.

*dedup*: the same reference again returns the first label. *lookup*: the carrier is asked; only an
absence seen twice, after the time that its records need to settle, allows another try. *none*: a
person decides; nothing is ever bought again by itself.
"""

from __future__ import annotations

import logging
from time import monotonic

from django.conf import settings
from django.db import connection
from django.db.models import F
from django.utils import timezone

from carriers import transport
from carriers.base import Purchase
from carriers.outcomes import Absent, Announced, Found, LookupResult
from parcels.models import Announcement, Attempt, State
from parcels.services.announce import Job, guard, job_for
from parcels.services.claim import claim_unknown
from parcels.services.clock import DatabaseNow
from parcels.services.next_state import Step, after_reconciling, after_review, seconds_until_due
from parcels.services.record import outcome_class, reason_of, record

log = logging.getLogger(__name__)


def reconcile(announcement_id: int) -> None:
    """Reconcile an unknown announcement that is due; does nothing when it isn't, or not ours."""
    announcement = claim_unknown(announcement_id)
    if announcement is not None:
        job = job_for(announcement)
        if timezone.now() >= announcement.deadline_at or job.carrier.repeats == "none":
            park(announcement)
        elif job.carrier.repeats == "dedup":
            _send_again(job)
        else:
            _look_up(job)
    connection.close()


def park(announcement: Announcement) -> None:
    """Leave the decision to a person, with the evidence in the attempts."""
    Announcement.objects.filter(
        pk=announcement.pk, fence=announcement.fence, state=State.UNKNOWN
    ).update(state=State.NEEDS_REVIEW, lease_until=None)
    log.warning("announcement %s needs review", announcement.reference)


def _send_again(job: Job) -> None:
    if not guard(job):
        return  # our lease runs out, and the sweeper wakes somebody else
    connection.close()
    started = monotonic()
    outcome = transport.perform(
        job.carrier.announce(job.consignment),
        job.url,
        settings.CARRIER_CALL_DEADLINE,
        settings.CARRIER_CONNECT_TIMEOUT,
        may_buy=job.may_buy,
    )
    step = after_reconciling(job.announcement, outcome)
    record(
        announcement=job.announcement,
        outcome=outcome,
        duration=monotonic() - started,
        next_state=step.state,
        delay=step.delay,
    )


def _look_up(job: Job) -> None:
    connection.close()
    started = monotonic()
    result = transport.perform(
        job.carrier.lookup(job.announcement.reference, job.consignment.credentials),
        job.url,
        settings.CARRIER_CALL_DEADLINE,
        settings.CARRIER_CONNECT_TIMEOUT,
    )
    duration = monotonic() - started
    match result:
        case Found(announced=[first, *others]):
            adopt(job, first, others, duration)
        case Absent():
            _note_absence(job, duration)
        case _:
            _note_lookup(job, result, duration)
            _postpone(job.announcement, after_review(job.announcement))


def adopt(job: Job, first: Announced, others: list[Announced], duration: float) -> None:
    """Take the carrier's oldest label as ours, and void whatever else it holds for us."""
    ours = record(
        announcement=job.announcement,
        outcome=first,
        duration=duration,
        next_state=State.ANNOUNCED,
        kind="lookup",
    )
    if ours and others:
        log.error("%s was bought %s times", job.announcement.reference, len(others) + 1)
        for spare in others:
            void(job, spare)


def void(job: Job, spare: Announced) -> None:
    """Cancel a label that we don't want, and keep what the carrier said in the attempts."""
    connection.close()
    started = monotonic()
    purchase = Purchase(job.announcement.reference, spare.carrier_id, spare.tracking_number)
    result = transport.perform(
        job.carrier.void(purchase, job.consignment.credentials),
        job.url,
        settings.CARRIER_CALL_DEADLINE,
        settings.CARRIER_CONNECT_TIMEOUT,
    )
    Attempt.objects.create(
        announcement=job.announcement,
        kind="void",
        fence=job.announcement.fence,
        duration=round(monotonic() - started, 4),
        outcome=type(result).__name__.lower(),
        carrier_id=spare.carrier_id,
        tracking_number=spare.tracking_number,
    )


def _note_absence(job: Job, duration: float) -> None:
    """Count an absence that can be believed; the second one allows another try."""
    announcement = job.announcement
    _note_lookup(job, Absent(), duration)
    left = seconds_until_due(announcement, job.carrier.settling)
    if left > 0:
        _postpone(announcement, Step(State.UNKNOWN, left))
        return
    step = after_review(announcement, absences=announcement.absences + 1)
    Announcement.objects.filter(pk=announcement.pk, fence=announcement.fence).update(
        absences=F("absences") + 1
    )
    _postpone(announcement, step)


def _note_lookup(job: Job, result: LookupResult, duration: float) -> None:
    if isinstance(result, Absent | Found):
        outcome, detail = type(result).__name__.lower(), ""
    else:
        outcome, detail = outcome_class(result), reason_of(result)
    Attempt.objects.create(
        announcement=job.announcement,
        kind="lookup",
        fence=job.announcement.fence,
        sent_at=job.announcement.sent_at,
        duration=round(duration, 4),
        outcome=outcome,
        detail=detail,
    )


def _postpone(announcement: Announcement, step: Step) -> None:
    """Set the state and when it is due again, under our fence."""
    fresh = step.state == State.PENDING
    Announcement.objects.filter(
        pk=announcement.pk, fence=announcement.fence, state=State.UNKNOWN
    ).update(
        state=step.state,
        lease_until=None,
        run_at=DatabaseNow(step.delay),
        wake_at=DatabaseNow(step.delay),
        **({"sent_at": None, "absences": 0} if fresh else {}),
    )
