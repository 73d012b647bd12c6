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
from carriers.backoff import Decision
from carriers.outcomes import Absent, Announced, Found, LookupResult
from parcels.models import Announcement, Attempt, State
from parcels.services.announce import Job, buy, enter, guard, job_for, leave
from parcels.services.claim import claim_unknown
from parcels.services.clock import DatabaseNow
from parcels.services.next_state import after_lookup, after_repeating, settling, since_sent
from parcels.services.record import outcome_class, reason_of, record
from parcels.services.spares import void_spare

log = logging.getLogger(__name__)


def reconcile(announcement_id: int) -> None:
    """Reconcile an unknown announcement that is due; does nothing when it isn't, or not ours."""
    announcement = claim_unknown(announcement_id)
    if announcement is not None:
        _reconcile(job_for(announcement))
    connection.close()


def _reconcile(job: Job) -> None:
    if timezone.now() >= job.announcement.deadline_at or job.carrier.repeats == "none":
        park(job.announcement)
        return
    delay = enter(job)
    if delay is not None:
        _postpone(job.announcement, Decision("unknown", delay))
    elif job.carrier.repeats == "dedup":
        _send_again(job)
    else:
        _look_up(job)


def park(announcement: Announcement) -> None:
    """Leave the decision to a person, with the evidence in the attempts."""
    Announcement.objects.filter(
        pk=announcement.pk, fence=announcement.fence, state=State.UNKNOWN
    ).update(state=State.NEEDS_REVIEW, lease_until=None)
    log.warning("announcement %s needs review", announcement.reference)


def _send_again(job: Job) -> None:
    if not guard(job):
        leave(job, None, 0)
        return  # our lease runs out, and the sweeper wakes somebody else
    connection.close()
    outcome, duration = buy(job)
    decision = after_repeating(job.announcement, job.carrier, outcome)
    record(
        announcement=job.announcement,
        outcome=outcome,
        duration=duration,
        next_state=State(decision.state),
        delay=decision.delay,
    )


def _look_up(job: Job) -> None:
    connection.close()
    started = monotonic()
    result: LookupResult | None = None
    try:
        result = transport.perform(
            job.carrier.lookup(job.announcement.reference, job.consignment.credentials),
            job.url,
            settings.CARRIER_CALL_DEADLINE,
            settings.CARRIER_CONNECT_TIMEOUT,
        )
    finally:
        leave(job, result, monotonic() - started, buys=False)
    duration = monotonic() - started
    if isinstance(result, Found):
        first, *others = result.announced
        adopt(job, first, others, duration)
        return
    _note_lookup(job, result, duration)
    if isinstance(result, Absent):
        _count_absence(job)
    _postpone(job.announcement, after_lookup(job.announcement, job.carrier, result))


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
            void_spare(
                job,
                carrier_id=spare.carrier_id,
                tracking_number=spare.tracking_number,
                fence=job.announcement.fence,
            )


def _count_absence(job: Job) -> None:
    """Count an absence that can be believed; the second one allows another try."""
    announcement = job.announcement
    if since_sent(announcement) < settling(job.carrier):
        return
    announcement.absences += 1
    Announcement.objects.filter(pk=announcement.pk, fence=announcement.fence).update(
        absences=F("absences") + 1
    )


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


def _postpone(announcement: Announcement, decision: Decision) -> None:
    """Set the state and when it is due again, under our fence."""
    fresh = decision.state == State.PENDING
    Announcement.objects.filter(
        pk=announcement.pk, fence=announcement.fence, state=State.UNKNOWN
    ).update(
        state=decision.state,
        lease_until=None,
        run_at=DatabaseNow(decision.delay),
        wake_at=DatabaseNow(decision.delay),
        **({"sent_at": None, "absences": 0} if fresh else {}),
    )
