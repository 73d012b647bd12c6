"""Announce a parcel at its carrier: claim, enter, guard, call, record.

No transaction, row lock or database connection is held while the carrier is waited for.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from time import monotonic

from django.conf import settings
from django.db import connection

from carriers import registry, transport
from carriers.base import Carrier, Consignment
from carriers.outcomes import LookupResult, Outcome, VoidResult
from parcels import metrics
from parcels.models import Announcement, Parcel, State
from parcels.services import faults, protect
from parcels.services.claim import claim
from parcels.services.consign import consignment
from parcels.services.next_state import after_announcing
from parcels.services.record import hand_back, mark_sent, record
from parcels.services.withdraw import withdraw_claimed
from parcels.statuses import Status

# Threads of a process that compute or query at once; all others wait for a carrier, or for this.
# More only get in each other's way: whoever has the turn to write loses the interpreter's lock at
# each statement and queues for it behind hundreds. Measured: a fifth less CPU per announcement.
AT_WORK = threading.BoundedSemaphore(3)

# Seconds between claim and send guard: a process that was paused longer may have lost its lease.
GUARD_WINDOW = 1.0


@dataclass(slots=True)
class Job:
    """A claimed announcement, ready to be sent. `guarded_at` by this process' monotonic clock."""

    announcement: Announcement
    carrier: Carrier
    consignment: Consignment
    parcel: Parcel
    guarded_at: float = 0.0
    permission: protect.Pass | None = None

    @property
    def url(self) -> str:
        """Return the carrier's address."""
        return str(settings.CARRIERS[self.carrier.code]["url"])

    def may_buy(self) -> bool:
        """Tell, in the instant before a purchase's first byte, whether this process was paused.

        The guard's row was written before connecting; the monotonic clock runs on in a pause.
        """
        faults.purchase_leaves()
        in_time = monotonic() - self.guarded_at <= settings.CARRIER_CONNECT_TIMEOUT + GUARD_WINDOW
        return in_time or faults.is_off("send_guard")


def announce(announcement_id: int) -> None:
    """Announce a pending announcement; does nothing when it isn't pending, or not ours."""
    faults.passing("before_intent")
    connection.close()  # nobody waits with one in hand: whoever works needs one to come to an end
    with AT_WORK:
        job = prepare(announcement_id)
    if job is not None:
        outcome, duration = buy(job)
        with AT_WORK:
            finish(job, outcome, duration)


def buy(job: Job) -> tuple[Outcome, float]:
    """Call the carrier and wait; return the outcome and the seconds it took."""
    faults.passing("after_intent")
    started = monotonic()
    outcome: Outcome | None = None
    try:
        outcome = transport.perform(
            job.carrier.announce(job.consignment),
            job.url,
            settings.CARRIER_CALL_DEADLINE,
            settings.CARRIER_CONNECT_TIMEOUT,
            may_buy=job.may_buy,
        )
    finally:
        leave(job, outcome, monotonic() - started)
    faults.passing("after_reply")
    return outcome, monotonic() - started


def prepare(announcement_id: int) -> Job | None:
    """Claim, enter and pass the send guard; None when there is nothing to send.

    Gives the database connection back: what follows is waiting. Whoever gets a job calls the
    carrier and says `leave`, then `finish`.
    """
    announcement = claim(announcement_id)
    job = _ready(announcement) if announcement is not None else None
    connection.close()
    return job


def _ready(announcement: Announcement) -> Job | None:
    job = job_for(announcement)
    if job.parcel.status == Status.CANCELLATION_REQUESTED:
        withdraw_claimed(announcement, job.parcel)
        return None
    delay = enter(job)
    if delay is None and guard(job):
        return job
    leave(job, None, 0)
    hand_back(announcement, delay=delay or 0)
    return None


def enter(job: Job) -> float | None:
    """Take the permission to call the carrier; else return the seconds until asking again."""
    answer = protect.enter(job.carrier.code)
    if isinstance(answer, protect.TurnedAway):
        metrics.turned_away(job.carrier.code, answer.reason)
        return answer.delay
    job.permission = answer
    return None


def leave(
    job: Job,
    outcome: Outcome | LookupResult | VoidResult | None,
    duration: float,
    *,
    buys: bool = True,
) -> None:
    """Give the permission back, with what the call showed; see `protect.leave`."""
    permission, job.permission = job.permission, None
    if permission is not None:
        protect.leave(permission, outcome, duration, buys=buys)


def job_for(announcement: Announcement) -> Job:
    """Gather what the carrier needs to know."""
    parcel = Parcel.objects.select_related("account", "contract").get(pk=announcement.parcel_id)
    carrier = registry.carrier(announcement.carrier)
    return Job(announcement, carrier, consignment(announcement, parcel), parcel)


def guard(job: Job) -> bool:
    """Write down that the carrier may book from now on; False when this process was paused."""
    job.guarded_at = monotonic()
    window = settings.ANNOUNCEMENT_MAX_AGE if faults.is_off("send_guard") else GUARD_WINDOW
    return mark_sent(job.announcement, window)


def finish(job: Job, outcome: Outcome, duration: float) -> None:
    """Record the outcome and tell who waits; `duration` in seconds."""
    decision = after_announcing(job.announcement, job.carrier, outcome)
    record(
        announcement=job.announcement,
        outcome=outcome,
        duration=duration,
        next_state=State(decision.state),
        delay=decision.delay,
    )
    faults.passing("after_notify")
    connection.close()
