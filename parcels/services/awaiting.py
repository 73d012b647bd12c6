"""Waiting in a coroutine instead of a worker: what the strategy with async views needs.

There a service that must wait returns a `PendingResponse`, which knows how to continue. The view's
coroutine continues it (`finish`), so that no thread waits.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection
from django.http import HttpResponse

log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")

FAILED = "waiting failed: the client gets its late answer"
# Clients that disconnect cancel their coroutine. The work goes on, and the loop itself keeps only
# weak references to it.
_under_way: set[asyncio.Task[HttpResponse]] = set()


class PendingResponse(HttpResponse):
    """Stands for an answer that is still to be awaited; never leaves the process.

    `late` is the answer if that fails, as in `or_late`.
    """

    def __init__(self, go_on: Callable[[], Awaitable[HttpResponse]], late: HttpResponse) -> None:
        super().__init__()
        del self["Content-Type"]
        self.go_on = go_on
        self.late = late


def or_late(answer: Callable[[], HttpResponse], late: HttpResponse) -> HttpResponse:
    """Return the answer, or the late one if that fails: what it is about is stored, and goes on.

    After an error the client would try again, and buy a second label.
    """
    try:
        return answer()
    except Exception:
        log.exception(FAILED)
        return late


def views_are_coroutines() -> bool:
    """Say whether the strategy is the one whose views are coroutines."""
    return bool(settings.OFFLOAD["BACKEND"] == "async")


async def finish(response: HttpResponse) -> HttpResponse:
    """Await the answer behind a response; its headers stay, unless the answer has others.

    Cancelling it (the client has gone) stops the waiting, not the work: the answer of a carrier
    that was called is always read.
    """
    if not isinstance(response, PendingResponse):
        return response
    # In the thread of the request's synchronous part, which is kept until the answer, idle.
    await sync_to_async(_give_back)()
    work = asyncio.create_task(_go_on(response))
    _under_way.add(work)
    work.add_done_callback(_under_way.discard)
    return await asyncio.shield(work)


def _give_back() -> None:
    connection.close()  # looked up here: each thread has its own


async def _go_on(response: HttpResponse) -> HttpResponse:
    headers = dict(response.items())
    while isinstance(response, PendingResponse):
        pending = response
        try:
            response = await pending.go_on()
        except Exception:
            log.exception(FAILED)
            response = pending.late
    for name, value in headers.items():
        response.headers.setdefault(name, value)
    return response


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function that uses the database in one of the loop's few threads."""

    def call() -> R:
        try:
            return function(*args, **kwargs)
        finally:
            connection.close()  # no request ends in these threads, so nobody else would

    return await sync_to_async(call, thread_sensitive=False)()
