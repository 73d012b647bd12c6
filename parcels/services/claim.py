"""Claim announcements for the time of a lease, and prepare their calls, up to the send guard."""

import json
from collections.abc import Sequence
from time import monotonic
from typing import Any

from django.conf import settings
from django.db import connection
from django.utils import timezone

from parcels.models import Announcement, State
from parcels.services import protect
from parcels.services.announcement_sql import TABLE, claiming
from parcels.services.clock import now_sql
from parcels.services.job import Job, jobs_for
from parcels.services.next_state import backoff, hand_back, put_under_review, withdraw
from parcels.services.rows import change_rows, preceded_by
from parcels.statuses import Status

# Why 5: a claim without a result costs its process; after five the row is the cause, not chance.
MAX_CLAIMS = 5
FATAL = "Its processes died or failed, one after the other."
# Of the lease, until the send guard. The rest is enough for the whole call
# (shipping.E001): one that has passed the guard ends before another process may take its row. A
# second is enough at low load; on a busy machine a group of fifty takes longer.
LEASE_SHARE = 0.25

_AT_WORK = f"own.state IN ('{State.ANNOUNCING.value}', '{State.UNKNOWN.value}')"


def prepare(announcement_ids: Sequence[int]) -> list[Job]:
    """Claim these, enter and pass the send guard; return those whose label is to be bought.

    Closes the database connection: the next step waits. A returned job holds a permission, which
    the call gives back. The others are given back, withdrawn, or put under review.
    """
    jobs: list[Job] = []
    try:
        rows = []
        for row in claim(announcement_ids):
            if row.parcel.status == Status.CANCELLATION_REQUESTED:
                withdraw(row, row.parcel, State.ANNOUNCING)  # before what may fail with it
            elif row.claims > MAX_CLAIMS:
                put_under_review(row, FATAL)
            else:
                rows.append(row)
        jobs = jobs_for(rows)
        if len(jobs) < len(rows):
            prepared = [job.announcement for job in jobs]
            poor = [(row, backoff(row)) for row in rows if row not in prepared]
            hand_back(poor, "It can't be prepared: see the log.")
        refused = protect.enter(jobs)
        if refused:
            # Due at once: woken when a slot is kept for it; at an open breaker, with its ramp.
            hand_back([(job.announcement, 0.0) for job in jobs if job.announcement.pk in refused])
        entered = [job for job in jobs if job.announcement.pk not in refused]
        passed = guard(entered)
        if len(passed) < len(entered):
            late = [job.announcement for job in entered if job not in passed]
            hand_back([(row, backoff(row)) for row in late])
        return passed
    except BaseException:
        protect.leave((job, None, 0.0) for job in jobs)
        raise
    finally:
        connection.close()


def claim(announcement_ids: Sequence[int], state: State = State.PENDING) -> list[Announcement]:
    """Claim those of this state that are due, and that no other process has.

    They are read with what a call needs, and with their ages by the database's clock, which all
    processes share. A pending one is announcing from now on; an unknown one stays so.
    """
    sql, rows = claiming(state)
    to = State.UNKNOWN if state == State.UNKNOWN else State.ANNOUNCING
    values: list[Any] = [to, settings.ANNOUNCEMENT_LEASE, state]
    if connection.vendor == "postgresql":
        with preceded_by({TABLE: (sql, [*values, list(announcement_ids)])}):
            claimed = list(rows.all())
    else:
        with connection.cursor() as cursor:
            cursor.execute(sql, [*values, json.dumps(announcement_ids)])
            fences = dict(cursor.fetchall())
        # Not those that somebody else has claimed since: this process was paused.
        claimed = [row for row in rows.filter(pk__in=fences) if row.fence == fences[row.pk]]
    return claimed


def guard(jobs: Sequence[Job]) -> list[Job]:
    """Record that the carriers may book from now on, with which credentials; count the tries.

    Returns those that may buy, and gives the others' permissions back. These rows are no longer
    ours, or so much of their lease has passed that a call could outlast it: this process was
    paused.
    """
    now = monotonic()
    rows = [
        {
            "id": job.announcement.pk,
            "fence": job.announcement.fence,
            "contract": job.contract and job.contract.pk,
            "hash": job.credentials_hash,
        }
        for job in jobs
    ]
    passed = change_rows(
        Announcement,
        rows,
        f"sent_at = {now_sql()}, tries = own.tries + 1, contract_id = given.contract,"
        " credentials_hash = given.hash",
        f"own.fence = given.fence AND {_AT_WORK} AND own.claimed_at >= {now_sql('%s')}",
        condition_values=[-settings.ANNOUNCEMENT_LEASE * LEASE_SHARE],
    )
    protect.leave((job, None, 0.0) for job in jobs if job.announcement.pk not in passed)
    may_buy = [job for job in jobs if job.announcement.pk in passed]
    for job in may_buy:
        job.guarded_at = now
        job.announcement.sent_at = timezone.now()
        job.announcement.tries += 1
    return may_buy
