"""Announce in an event loop: a call in flight is a coroutine, and threads are for the database.

Rows that come together are claimed and recorded in groups. At low load each is done alone and at
once. While all threads are busy, new ones are collected, and the next free thread does them
together: the higher the load, the less each costs, and none waits for a group to fill.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

import structlog
from django.conf import settings
from django.db import connection

from parcels import faults
from parcels.services.announce import finish, prepare
from parcels.services.broker import next_in_turn
from parcels.services.call import Job, buy_async, leave
from parcels.services.record import Result

log = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")

# Threads that record. More only slow each other down: each statement releases the interpreter's
# lock and queues for it again. Two, so that one that waits for a row doesn't stop all.
RECORDING = 2
# Threads that claim, for each queue: answers of carriers don't wait behind new announcements, nor
# does one carrier's queue wait behind another's.
CLAIMING = 1
# A burst of 200 is four groups: the first member of a group waits for the others' permissions.
LARGEST = 50


class Grouped(Generic[T, R]):
    """Calls `function` with groups of at most `largest`, in at most `at_once` threads.

    It returns a result for each item. An exception goes to each member of the group.
    """

    def __init__(
        self, function: Callable[[Sequence[T]], Sequence[R]], *, at_once: int, largest: int
    ) -> None:
        self._function = function
        self._largest = largest
        self._idle = at_once
        self._threads = ThreadPoolExecutor(at_once)
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._under_way: set[asyncio.Task[None]] = set()

    async def __call__(self, item: T) -> R:
        """Have it done; in the event loop that all callers share."""
        result = asyncio.get_running_loop().create_future()
        self._waiting.append((item, result))
        self._begin()
        return await result

    def _begin(self) -> None:
        if not self._idle or not self._waiting:
            return
        self._idle -= 1
        many = min(len(self._waiting), self._largest)
        group = [self._waiting.popleft() for _ in range(many)]
        self._under_way.add(task := asyncio.create_task(self._do(group)))
        task.add_done_callback(self._under_way.discard)

    async def _do(self, group: Sequence[tuple[T, asyncio.Future[R]]]) -> None:
        items = [item for item, _ in group]
        loop = asyncio.get_running_loop()
        try:
            results = await loop.run_in_executor(self._threads, self._function, items)
            for (_, future), result in zip(group, results, strict=True):
                if not future.cancelled():
                    future.set_result(result)
        except Exception as error:
            for _, future in group:
                if not future.done():
                    future.set_exception(error)
        finally:
            self._idle += 1
            self._begin()


class Announcer:
    """What the coroutines of one event loop share."""

    def __init__(self) -> None:
        self._prepared: dict[str, Grouped[int, Job | None]] = {}
        self._finished = Grouped(_finish, at_once=RECORDING, largest=LARGEST)

    async def announce(self, announcement_id: int, queue: str = "") -> None:
        """Announce a pending announcement; does nothing when it isn't pending, or not ours.

        With `queue`, the queue of its message, it announces the one whose account has the turn:
        there is a message for each. The caller must not cancel it, since a request that was sent is
        bought.
        """
        faults.passing("before_intent")
        if queue not in self._prepared:
            prepare_next = functools.partial(_prepare, queue)
            self._prepared[queue] = Grouped(prepare_next, at_once=CLAIMING, largest=LARGEST)
        job = await self._prepared[queue](announcement_id)
        if job is None:
            return
        faults.passing("after_intent")
        outcome = None
        try:
            outcome, duration = await buy_async(job)
        finally:
            if outcome is None:
                await asyncio.to_thread(leave, job, None)
        faults.passing("after_reply")
        await self._finished(Result(job, outcome, duration))


def _prepare(queue: str, announcement_ids: Sequence[int]) -> list[Job | None]:
    chosen = [next_in_turn(queue, each) for each in announcement_ids]
    jobs = {job.announcement.pk: job for job in prepare(chosen)}
    return [jobs.pop(each, None) for each in chosen]


def _finish(results: Sequence[Result]) -> list[None]:
    try:
        for each in results:
            leave(each.job, each.outcome, each.duration)
        finish(results)
    finally:
        connection.close()
    return [None] * len(results)


@functools.cache
def announcer() -> Announcer:
    """Return the announcer of this process' event loop."""
    return Announcer()


class Loop:
    """An event loop in a separate thread, for processes that have none: the worker."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._room = threading.BoundedSemaphore(settings.WORKER_CONCURRENCY)
        # The event loop itself keeps only weak references.
        self._tasks: set[asyncio.Task[None]] = set()
        threading.Thread(target=self._loop.run_forever, name="announcer", daemon=True).start()

    def submit(self, announcement_id: int, queue: str) -> None:
        """Announce it; waits only while `WORKER_CONCURRENCY` are running."""
        self._room.acquire()
        self._loop.call_soon_threadsafe(self._begin, announcement_id, queue)

    def drain(self) -> None:
        """Wait until all that was begun has been recorded: a call ends by its own deadline."""
        for _ in range(settings.WORKER_CONCURRENCY):
            self._room.acquire()

    def _begin(self, announcement_id: int, queue: str) -> None:
        task = self._loop.create_task(self._announce(announcement_id, queue))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _announce(self, announcement_id: int, queue: str) -> None:
        structlog.contextvars.bind_contextvars(announcement=announcement_id)
        try:
            await announcer().announce(announcement_id, queue)
        except Exception:
            log.exception("announcement %s", announcement_id)  # its lease runs out
        finally:
            self._room.release()


_making = threading.Lock()
_made: list[Loop] = []


def loop() -> Loop:
    """Return this process' loop, made when it is first needed.

    Only one thread makes it: a worker's first messages come together, and two loops can't share
    futures.
    """
    with _making:
        if not _made:
            _made.append(Loop())
        return _made[0]
