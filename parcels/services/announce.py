"""Announce a parcel at its carrier: claim, guard, call, record.

No transaction, row lock or database connection is held while the carrier is waited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

from django.conf import settings
from django.db import connection

from carriers import registry, transport
from carriers.base import Carrier, Consignment
from carriers.outcomes import Outcome
from parcels.models import Announcement, Parcel
from parcels.services.claim import claim
from parcels.services.consign import consignment
from parcels.services.next_state import after_announcing
from parcels.services.record import hand_back, mark_sent, record
from parcels.services.withdraw import withdraw_claimed
from parcels.statuses import Status

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

    @property
    def url(self) -> str:
        """Return the carrier's address."""
        return str(settings.CARRIERS[self.carrier.code]["url"])

    def may_buy(self) -> bool:
        """Tell, in the instant before a purchase's first byte, whether this process was paused.

        The guard's row was written before connecting; the monotonic clock runs on in a pause.
        """
        return monotonic() - self.guarded_at <= settings.CARRIER_CONNECT_TIMEOUT + GUARD_WINDOW


def announce(announcement_id: int) -> None:
    """Announce a pending announcement; does nothing when it isn't pending, or not ours."""
    job = prepare(announcement_id)
    if job is None:
        return
    started = monotonic()
    outcome = transport.perform(
        job.carrier.announce(job.consignment),
        job.url,
        settings.CARRIER_CALL_DEADLINE,
        settings.CARRIER_CONNECT_TIMEOUT,
        may_buy=job.may_buy,
    )
    finish(job, outcome, monotonic() - started)


def prepare(announcement_id: int) -> Job | None:
    """Claim and pass the send guard; None when there is nothing to send.

    Gives the database connection back: what follows is waiting.
    """
    announcement = claim(announcement_id)
    job = None
    if announcement is not None:
        job = job_for(announcement)
        if job.parcel.status == Status.CANCELLATION_REQUESTED:
            withdraw_claimed(announcement, job.parcel)
            job = None
        elif not guard(job):
            hand_back(announcement, delay=0)
            job = None
    connection.close()
    return job


def job_for(announcement: Announcement) -> Job:
    """Gather what the carrier needs to know."""
    parcel = Parcel.objects.select_related("account", "contract").get(pk=announcement.parcel_id)
    carrier = registry.carrier(announcement.carrier)
    return Job(announcement, carrier, consignment(announcement, parcel), parcel)


def guard(job: Job) -> bool:
    """Write down that the carrier may book from now on; False when this process was paused."""
    job.guarded_at = monotonic()
    return mark_sent(job.announcement, GUARD_WINDOW)


def finish(job: Job, outcome: Outcome, duration: float) -> None:
    """Record the outcome and tell who waits; `duration` in seconds."""
    step = after_announcing(job.announcement, outcome)
    record(
        announcement=job.announcement,
        outcome=outcome,
        duration=duration,
        next_state=step.state,
        delay=step.delay,
    )
    connection.close()
