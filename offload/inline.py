"""Waiting for one release in the app itself: in a thread, greenlet or process, or a coroutine."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from threading import Thread
from typing import Any
from uuid import UUID

import redis
from asgiref.sync import sync_to_async
from django.db import connections
from django.http import HttpResponse

from offload import conf, resolving, store
from offload.counting import here
from offload.doubts import ASK_TIMEOUT, DOUBT, REREAD
from offload.keys import ANSWER_KEY, EPOCH_KEY, HOLD_CHANNEL
from offload.protocol import Answer, Hold, Message, check_hold_id, decode_answer, merge
from offload.redis_clients import address, reason, shared_client
from offload.responses import to_response
from offload.waiting import Waiters

logger = logging.getLogger("offload")

# One subscription per event loop: under WSGI each call of an async view has a loop of its own.
_waiters: dict[asyncio.AbstractEventLoop, Waiters] = {}


def wait(hold_id: UUID | str, seconds: float) -> HttpResponse | None:
    """Wait in this worker until the hold is released; None when `seconds` have passed.

    For the deployments that hold no clients. Give the database connection back before.
    """
    answer = wait_for(check_hold_id(hold_id), seconds)
    return None if answer is None else to_response(answer)


def wait_here(late: Any) -> HttpResponse:
    """Wait in this worker instead of a front, without a database connection."""
    hold: Hold = late.offload_hold
    _leave_database()
    return in_place_of(late, wait_for(hold.hold_id, hold.deadline - time.time()))


def _leave_database() -> None:
    if not give_connections_back() and store.eager is None:
        logger.warning(
            "waits inside a transaction: work that starts at its commit does not start; "
            "in a TestCase use offload.testing.eager()"
        )


def in_place_of(late: HttpResponse, answer: Answer | None) -> HttpResponse:
    """Return the outcome as a front would give it; the late answer where there is none."""
    return late if answer is None else to_response(merge(answer, store.to_answer(late)))


def wait_for(hold_id: str, seconds: float) -> Answer | None:
    """Subscribe, read, wait; ask the app where Redis is in doubt, and at the end."""
    if store.eager is not None:
        return store.eager.answer(hold_id)
    deadline = time.monotonic() + seconds
    wait_on_store: Callable[[str, float], Answer | None] = _wait_on_redis
    trouble: tuple[type[Exception], ...] = (redis.RedisError, OSError, ValueError)
    if conf.current().in_database:
        from offload.postgresql.listening import TROUBLE, wait_on_postgresql  # psycopg is an extra

        wait_on_store = partial(wait_on_postgresql, store.url(), ask_app=_ask_app, idle=REREAD)
        trouble = TROUBLE
    end, doubt = deadline, 0.0
    while True:
        try:
            answer = wait_on_store(hold_id, end)  # which asks the app at its end
            if answer is not None or end == deadline:
                return answer
        except trouble as error:
            where = address(store.url())
            logger.warning("%s is in doubt, the app is asked: %s", where, reason(error))
            doubt = time.monotonic() + DOUBT
            answer = _ask_app(hold_id)
            if answer is not None or time.monotonic() >= deadline:
                return answer
            time.sleep(min(REREAD, max(0.0, deadline - time.monotonic())))
        now = time.monotonic()
        end = min(now + REREAD, deadline) if now < doubt else deadline


def _wait_on_redis(hold_id: str, deadline: float) -> Answer | None:
    client = shared_client(conf.current().redis_url)
    client.set(EPOCH_KEY, secrets.token_hex(8), nx=True)
    with client.pubsub(ignore_subscribe_messages=False) as channel:
        channel.subscribe(HOLD_CHANNEL + hold_id)
        epoch = None
        woken = False
        while True:
            stored, now_epoch = store.read(ANSWER_KEY + hold_id, EPOCH_KEY)
            if stored is not None:
                return decode_answer(stored)
            left = deadline - time.monotonic()
            if woken or left <= 0 or epoch not in (None, now_epoch):
                answer = _ask_app(hold_id)
                if answer is not None or left <= 0:
                    return answer
            epoch = now_epoch
            message = channel.get_message(timeout=min(REREAD, left))
            woken = message is not None and message["type"] == "message"


def _ask_app(hold_id: str) -> Answer | None:
    """Ask in a thread that is given up after ASK_TIMEOUT: no query of RESOLVE has a limit.

    But in a transaction, whose rows no other thread sees, as in a TestCase.
    """
    if any(each.in_atomic_block for each in connections.all(initialized_only=True)):
        return resolving.resolve_one(hold_id, final_only=True)
    answer: Future[Answer | None] = Future()
    try:
        Thread(target=_ask_and_close, args=(hold_id, answer), daemon=True).start()
        return answer.result(ASK_TIMEOUT)
    except (TimeoutError, RuntimeError) as error:  # no thread can be started
        logger.warning("the app could not say anything about hold %s: %r", hold_id, error)
        return None


def _ask_and_close(hold_id: str, answer: Future[Answer | None]) -> None:
    try:
        answer.set_result(resolving.resolve_one(hold_id, final_only=True))
    finally:
        connections.close_all()


def give_connections_back() -> bool:
    """Close this thread's database connections; False if it is in a transaction, which stays."""
    every = connections.all(initialized_only=True)
    idle = [connection for connection in every if not connection.in_atomic_block]
    for connection in idle:
        connection.close()
    return len(idle) == len(every)


# In a coroutine -----------------------------------------------------------------------------------


async def wait_async(hold_id: UUID | str, seconds: float) -> HttpResponse | None:
    """As `wait`, for an async view: it takes a coroutine, and no thread."""
    answer = await wait_in_loop(check_hold_id(hold_id), seconds)
    return None if answer is None else to_response(answer)


async def wait_in_this_loop(late: Any) -> HttpResponse:
    """As `wait_here`, for a coroutine."""
    hold: Hold = late.offload_hold
    await sync_to_async(_leave_database)()  # those of the thread in which a sync view ran
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
