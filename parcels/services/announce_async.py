"""Announce in a coroutine: threads are taken before and after the carrier's call, not during it."""

from __future__ import annotations

from time import monotonic

from django.conf import settings

from carriers import transport_async
from carriers.outcomes import Outcome
from parcels.services.announce import finish, leave, prepare
from parcels.services.awaiting import in_thread


async def announce_async(announcement_id: int) -> None:
    """As `announce`; cancelling it is the caller's to prevent, since what was sent is bought."""
    job = await in_thread(prepare, announcement_id)
    if job is None:
        return
    started = monotonic()
    outcome: Outcome | None = None
    try:
        outcome = await transport_async.perform(
            job.carrier.announce(job.consignment),
            job.url,
            settings.CARRIER_CALL_DEADLINE,
            settings.CARRIER_CONNECT_TIMEOUT,
            may_buy=job.may_buy,
        )
    finally:
        await in_thread(leave, job, outcome, monotonic() - started)
    await in_thread(finish, job, outcome, monotonic() - started)
