"""Waiting for one release in a coroutine of the app's own event loop."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.http import HttpResponse

from offload import resolving, store
from offload.counting import here
from offload.protocol import Answer, Hold, Message, check_hold_id
from offload.responses import to_response
from offload.waiting import Waiters
from offload.worker_wait import give_connections_back, in_place_of

# One subscription per event loop: under WSGI each call of an async view has a loop of its own.
_waiters: dict[asyncio.AbstractEventLoop, Waiters] = {}


async def wait_async(hold_id: UUID | str, seconds: float) -> HttpResponse | None:
    """As `wait`, for an async view: it takes a coroutine, and no thread."""
    answer = await wait_in_loop(check_hold_id(hold_id), seconds)
    return None if answer is None else to_response(answer)


async def wait_in_this_loop(late: Any) -> HttpResponse:
    """As `wait_here`, for a coroutine."""
    hold: Hold = late.offload_hold
    await sync_to_async(give_connections_back)()  # those of the thread in which a sync view ran
    return in_place_of(late, await wait_in_loop(hold.hold_id, hold.deadline - time.time()))


async def wait_in_loop(hold_id: str, seconds: float) -> Answer | None:
    """Wait among all others of this loop; None when `seconds` have passed."""
    if store.eager is not None:
        return await sync_to_async(store.eager.answer)(hold_id)
    loop = asyncio.get_running_loop()
    if loop not in _waiters:
        _waiters[loop] = Waiters(store.url(), resolve=resolving.resolve_in_thread, counts=here())
        _waiters[loop].start()
        _waiters[loop].run("close", partial(_close_with, loop))
    return await _waiters[loop].wait(hold_id, time.time() + seconds, _never)


async def _close_with(loop: asyncio.AbstractEventLoop) -> None:
    try:
        await _never()
    finally:  # cancelled, as all tasks are when a loop ends
        await _waiters.pop(loop).store.aclose()


async def _never() -> Message:
    # Whoever awaits the view cancels it when the client is gone.
    await asyncio.Event().wait()
    raise AssertionError("an event that nobody sets")
