"""Announce a parcel at its carrier: claim, prepare, enter, guard, call, record."""

from __future__ import annotations

import functools
import random
import threading
from time import monotonic

from django.conf import settings
from django.db import connection
from django.db.models import F
from django.utils import timezone

from carriers.backoff import jittered
from carriers.outcomes import NotSent, Outcome
from parcels import faults
from parcels.models import Announcement, State
from parcels.services.awaiting import in_thread
from parcels.services.broker import next_in_turn
from parcels.services.call import (
    GUARD_WINDOW,
    Job,
    buy_async,
    call_carrier,
    enter,
    leave,
    try_job_for,
)
from parcels.services.claim import claim
from parcels.services.clock import DatabaseNow
from parcels.services.ending import park, withdraw
from parcels.services.next_state import FATAL, is_fatal, policy
from parcels.services.record import hand_back, record
from parcels.statuses import Status

# Threads of a process that compute or query at once; all others wait for a carrier, or for this.
# More only get in each other's way: whoever has the turn to write loses the interpreter's lock at
# each statement and queues for it behind hundreds. Measured: a fifth less CPU per announcement.
AT_WORK = threading.BoundedSemaphore(3)
# Of these, for each queue, so many may begin something: however many messages wait in threads, what
# a carrier has answered and what another carrier's queue has do not wait behind them.
BEGINNING = 2


@functools.cache
def beginning(queue: str) -> threading.BoundedSemaphore:
    """Return this process's limit on what begins at once of a queue."""
    return threading.BoundedSemaphore(BEGINNING)


def announce(announcement_id: int, queue: str = "") -> None:
    """Announce a pending announcement; does nothing when it isn't pending, or not ours.

    With the `queue` that it came from, the one whose account's turn it is: there is a message for
    each.
    """
    faults.passing("before_intent")
    connection.close()  # nobody waits with one in hand: whoever works needs one to come to an end
    try:
        with beginning(queue), AT_WORK:
            job = prepare(next_in_turn(queue, announcement_id))
        if job is not None:
            outcome, duration = buy(job)
            with AT_WORK:
                finish(job, outcome, duration)
    finally:
        connection.close()  # a thread of a pool has its own, and nobody else would close it


async def announce_async(announcement_id: int) -> None:
    """As `announce`; cancelling it is the caller's to prevent, since what was sent is bought.

    Threads are taken before and after the carrier's call, not during it.
    """
    job = await in_thread(prepare, announcement_id)
    if job is not None:
        outcome, duration = await buy_async(job)
        await in_thread(finish, job, outcome, duration)


def prepare(announcement_id: int) -> Job | None:
    """Claim, enter and pass the send guard; None when there is nothing to send.

    Gives the database connection back: what follows is waiting. A job that is returned holds a
    permission, which the call gives back.
    """
    announcement = claim(announcement_id)
    job = _prepare(announcement) if announcement is not None else None
    connection.close()
    return job


def _prepare(announcement: Announcement) -> Job | None:
    if is_fatal(announcement):
        park(announcement, FATAL)
        return None
    job = try_job_for(announcement)
    if job is None:
        hand_back(announcement, _backoff(announcement), "It can't be prepared: see the log.")
        return None
    if job.parcel.status == Status.CANCELLATION_REQUESTED:
        withdraw(announcement, job.parcel, State.ANNOUNCING)
        return None
    if refusal := admit(job):
        hand_back(announcement, refusal.retry_after)
        return None
    return job


def admit(job: Job) -> NotSent | None:
    """Take the permission to buy and pass the send guard; else say when to ask again."""
    refusal = enter(job)
    if refusal is not None:
        return refusal
    passed = False
    try:
        passed = guard(job)
    finally:
        if not passed:
            leave(job, None)
    # A database so slow that the guard refuses gets no more of it at each second.
    return None if passed else NotSent("paused", retry_after=_backoff(job.announcement))


def _backoff(announcement: Announcement) -> float:
    return jittered(announcement.fence, random.Random(), policy().first, policy().longest)


def guard(job: Job) -> bool:
    """Write down that the carrier may book from now on, and with which credentials; count the try.

    False when the row is no longer ours, or when more than `GUARD_WINDOW` has passed since the
    claim: this process was paused, and somebody else may have taken over.
    """
    announcement = job.announcement
    job.guarded_at = monotonic()
    window = settings.ANNOUNCEMENT_MAX_AGE if faults.is_off("send_guard") else GUARD_WINDOW
    passed = Announcement.objects.filter(
        pk=announcement.pk,
        fence=announcement.fence,
        state__in=[State.ANNOUNCING, State.UNKNOWN],
        claimed_at__gte=DatabaseNow(-window),
    ).update(
        sent_at=DatabaseNow(),
        tries=F("tries") + 1,
        contract=job.contract,
        credentials_hash=job.credentials_hash,
    )
    if passed:
        announcement.sent_at = timezone.now()
        announcement.tries += 1
    return bool(passed)


def buy(job: Job) -> tuple[Outcome, float]:
    """Call the carrier and wait; return the outcome and the seconds it took."""
    faults.passing("after_intent")
    outcome, duration = call_carrier(job, job.carrier.announce(job.consignment), buys=True)
    faults.passing("after_reply")
    return outcome, duration


def finish(job: Job, outcome: Outcome, duration: float) -> None:
    """Record the outcome and tell who waits; `duration` in seconds."""
    record(job, outcome, duration)
    faults.passing("after_notify")
