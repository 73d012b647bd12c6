"""Call a carrier and wait: for lookups and voids, and for purchases where workers wait."""

from time import monotonic
from typing import TypeVar

from django.db import connection

from carriers import transport
from carriers.base import Steps
from carriers.outcomes import LookupResult, NotSent, Outcome, Unknown, VoidResult
from parcels.models import Announcement
from parcels.services import protect
from parcels.services.job import Job, Result, jobs_for

T = TypeVar("T", Outcome, LookupResult, VoidResult)


def job_for(announcement: Announcement) -> Job | None:
    """Prepare a call about one; None if it can't be prepared."""
    return next(iter(jobs_for([announcement])), None)


def call_carrier(
    job: Job, steps: Steps[T], *, buys: bool = False
) -> tuple[T | NotSent | Unknown, float]:
    """Call the carrier and wait; return the result and the seconds that it took.

    Within the permission that the job has, else within one of its own. A purchase's was taken
    before its send guard.
    """
    if not job.slot and (refused := protect.enter([job])):
        steps.close()
        return refused[job.announcement.pk], 0.0
    connection.close()
    started = monotonic()
    result: T | NotSent | Unknown | None = None
    try:
        result = transport.perform(steps, *job.limits())
    finally:
        duration = monotonic() - started
        protect.leave([(job, result, duration)], buys=buys)
    return result, duration


def buy(job: Job) -> Result:
    """Call the carrier and wait."""
    outcome, duration = call_carrier(job, job.carrier.announce(job.consignment), buys=True)
    return Result(job, outcome, duration)
