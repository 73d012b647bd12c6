"""Announce in the process that waits for it: in strategies whose workers do, and in the sweeper
without a broker. In a thread each alone, in an event loop in groups.
"""

import functools
from collections.abc import Sequence

from django.db import connection

from parcels.services.announcer import LARGEST, RECORDING, Grouped, buy_async
from parcels.services.call_and_wait import buy
from parcels.services.claim import prepare
from parcels.services.job import Job, Result
from parcels.services.record import finish

# Threads that claim, beside those that record: answers don't wait behind new announcements.
CLAIMING = 1


def announce(announcement_id: int) -> None:
    """Announce a pending announcement; does nothing when it isn't pending, or not ours."""
    connection.close()  # no connection is held while waiting: working threads need them to finish
    try:
        for job in prepare([announcement_id]):
            finish([buy(job)])
    finally:
        connection.close()  # each pool thread has its own connection, and no other code closes it


async def announce_async(announcement_id: int) -> None:
    """As `announce`, in the process' event loop.

    The caller must not cancel it, since a request that was sent is bought.
    """
    prepared, finished = _groups()
    job = await prepared(announcement_id)
    if job is not None:
        await finished(await buy_async(job))


@functools.cache
def _groups() -> tuple[Grouped[int, Job | None], Grouped[Result, None]]:
    return (
        Grouped(_prepare, at_once=CLAIMING, largest=LARGEST),
        Grouped(finish, at_once=RECORDING, largest=LARGEST),
    )


def _prepare(announcement_ids: Sequence[int]) -> list[Job | None]:
    jobs = {job.announcement.pk: job for job in prepare(announcement_ids)}
    return [jobs.pop(each, None) for each in announcement_ids]
