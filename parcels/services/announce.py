"""Announce a parcel at its carrier: claim, prepare, enter, guard, call, record."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from time import monotonic

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection
from django.utils import timezone

from carriers.backoff import jittered
from carriers.outcomes import Outcome
from parcels import faults
from parcels.models import Announcement, State
from parcels.services.accept import lost_a_race
from parcels.services.call import Job, call_carrier, enter, jobs_for, leave, sleep_for
from parcels.services.claim import claim, hand_back, note_sending
from parcels.services.ending import put_under_review, withdraw
from parcels.services.next_state import FATAL, is_fatal, policy
from parcels.services.record import Result, record
from parcels.statuses import Status

log = logging.getLogger(__name__)

# Of the lease, until the send guard. The rest is longer than a call's whole deadline
# (shipping.E001): a call that has passed the guard ends before another process may take its row. A
# second is enough at low load; on a busy machine a group of fifty takes longer.
LEASE_SHARE = 0.25


def announce(announcement_id: int) -> None:
    """Announce a pending announcement; does nothing when it isn't pending, or not ours."""
    faults.passing("before_intent")
    connection.close()  # no connection is held while waiting: working threads need them to finish
    try:
        for job in prepare([announcement_id]):
            finish([Result(job, *buy(job))])
    finally:
        connection.close()  # each pool thread has its own connection, and no other code closes it


def prepare(announcement_ids: Sequence[int]) -> list[Job]:
    """Claim these, enter and pass the send guard; return those whose label is to be bought.

    Closes the database connection: the next step waits. A returned job holds a permission, which
    the call gives back.
    """
    try:
        entered = _enter(_jobs(claim(announcement_ids)))
        passed = guard(entered)
        late = [job.announcement for job in entered if job not in passed]
        hand_back([(each, backoff(each)) for each in late])
        return passed
    finally:
        connection.close()


def _jobs(claimed: Sequence[Announcement]) -> list[Job]:
    fatal = [each for each in claimed if is_fatal(each)]
    for each in fatal:
        put_under_review(each, FATAL)
    rest = [each for each in claimed if each not in fatal]
    jobs = jobs_for(rest) if rest else []
    prepared = [job.announcement for job in jobs]
    poor = [each for each in rest if each not in prepared]
    hand_back([(each, backoff(each)) for each in poor], "It can't be prepared: see the log.")
    return jobs


def _enter(jobs: Sequence[Job]) -> list[Job]:
    """Return those that may call; those that are turned away are given back, all at once."""
    wanted: list[Job] = []
    for job in jobs:
        if job.parcel.status == Status.CANCELLATION_REQUESTED:
            withdraw(job.announcement, job.parcel, State.ANNOUNCING)
        else:
            wanted.append(job)
    refused = enter(wanted)
    turned_away = [job.announcement for job in wanted if job.announcement.pk in refused]
    hand_back([(each, sleep_for(refused[each.pk])) for each in turned_away])
    return [job for job in wanted if job.announcement.pk not in refused]


def backoff(announcement: Announcement) -> float:
    """Return the seconds until a try that could not begin is repeated.

    If the guard refuses because the database is slow, it must not be repeated each second.
    """
    return jittered(announcement.fence, random.Random(), policy().first, policy().longest)


def guard(jobs: Sequence[Job]) -> list[Job]:
    """Record that the carriers may book from now on, with which credentials; count the tries.

    Returns those that may buy, and gives the others' permissions back. These rows are no longer
    ours, or so much of their lease has passed that a call could outlast it: this process was
    paused.
    """
    lease = settings.ANNOUNCEMENT_LEASE * LEASE_SHARE
    window = settings.ANNOUNCEMENT_MAX_AGE if faults.is_off("send_guard") else lease
    now = monotonic()
    calls = [
        (job.announcement, job.contract.pk if job.contract else None, job.credentials_hash)
        for job in jobs
    ]
    passed = note_sending(calls, window)
    leave((job, None, 0.0) for job in jobs if job.announcement.pk not in passed)
    may_buy = [job for job in jobs if job.announcement.pk in passed]
    for job in may_buy:
        job.guarded_at = now
        job.announcement.sent_at = timezone.now()
        job.announcement.tries += 1
    return may_buy


def buy(job: Job) -> tuple[Outcome, float]:
    """Call the carrier and wait; return the outcome and the seconds it took."""
    faults.passing("after_intent")
    outcome, duration = call_carrier(job, job.carrier.announce(job.consignment), buys=True)
    faults.passing("after_reply")
    return outcome, duration


def finish(results: Sequence[Result]) -> None:
    """Record the outcomes and tell the clients that wait.

    One that can't be recorded is left until its lease expires, and blocks no other.
    """
    try:
        record(results)
    except Exception as error:
        if len(results) == 1 or _is_away(error):
            raise
        for each in results:
            try:
                record([each])
            except Exception:
                log.exception("%s can't be recorded", each.job.announcement.reference)
    faults.passing("after_notify")


def _is_away(error: Exception) -> bool:
    """Distinguish a database that is down from two groups that waited for each other's rows."""
    return isinstance(error, OperationalError | InterfaceError) and not lost_a_race(error)
