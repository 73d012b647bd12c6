"""Waiting for one release in a coroutine of the app's own event loop."""

from __future__ import annotations

import asyncio
import time
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async

from offload import conf, resolving, store
from offload.answer import Answer
from offload.counting import here
from offload.waiting import Message, Waiters

# One subscription per event loop; a loop that ends takes its own with it.
_waiters: WeakKeyDictionary[asyncio.AbstractEventLoop, Waiters] = WeakKeyDictionary()


async def wait_in_loop(hold_id: str, seconds: float) -> Answer | None:
    """Wait among all others of this loop; None when `seconds` have passed."""
    if store.eager is not None:
        return await sync_to_async(store.eager.answer)(hold_id)
    loop = asyncio.get_running_loop()
    if loop not in _waiters:
        settings = conf.current()
        resolve = resolving.resolve_in_thread if settings.resolve else None
        _waiters[loop] = Waiters(store.url(), resolve=resolve, counts=here())
        _waiters[loop].start()
    ending = await _waiters[loop].wait(hold_id, time.time() + seconds, _never)
    return ending if isinstance(ending, Answer) else None


async def _never() -> Message:
    # Whoever awaits the view cancels it when the client is gone.
    await asyncio.Event().wait()
    raise AssertionError("an event that nobody sets")
