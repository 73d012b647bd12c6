"""Announce in an event loop: a call in flight is a coroutine, and threads are for the database.

Rows that come together are claimed and recorded in groups. At low load each is done alone and at
once. What comes within APART of a group's beginning is collected, and done together: the higher
the load, the less each costs.
"""

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Generic, TypeVar

import structlog
import uvloop
from django.conf import settings

from carriers import transport_async
from parcels.services import protect
from parcels.services.claim import prepare
from parcels.services.job import Job, Result
from parcels.services.record import finish
from parcels.services.wake import next_in_turn

log = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")

# Threads that record. More only slow each other down: each statement releases the interpreter's
# lock and queues for it again. Two, so that one that waits for a row doesn't stop all.
RECORDING = 2
# A burst of 200 is four groups: the first member of a group waits for the others' permissions.
LARGEST = 50
# uvloop resolves names in half of these threads, and a look-up that was given up keeps its own as
# long as the resolver takes: two of four (the default) stopped the calls to all carriers.
os.environ.setdefault("UV_THREADPOOL_SIZE", f"{4 * LARGEST}")
# Seconds between the beginnings of two groups. The call beside it takes seconds; a group of five
# costs half as much for each as five groups of one.
APART = 0.05
# Seconds for which a worker asks again when its queue is empty: no message is sent meanwhile. One
# costs ten times as much as asking; at over seven announcements a second there are none.
LISTENING = 3 * APART


class Grouped(Generic[T, R]):
    """Calls `function` with groups of at most `largest`, in at most `at_once` threads.

    It returns a result for each item; what it raises goes to each member of the group. Groups begin
    at least APART seconds after each other, unless they are full.
    """

    def __init__(
        self, function: Callable[[Sequence[T]], Sequence[R]], *, at_once: int, largest: int
    ) -> None:
        self._function, self._largest = function, largest
        # Each with its thread: an executor that can't start one keeps the call, for later.
        self._idle = [ThreadPoolExecutor(1) for _ in range(at_once)]
        for thread in self._idle:
            thread.submit(int)
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._next = 0.0
        self._full = asyncio.Event()
        self._at_work: set[asyncio.Task[None]] = set()  # the event loop keeps only weak references

    async def __call__(self, item: T) -> R:
        """Have it done; in the event loop that all callers share."""
        result = asyncio.get_running_loop().create_future()
        self._waiting.append((item, result))
        if len(self._waiting) == self._largest:
            self._full.set()
        if self._idle:
            task = asyncio.create_task(self._work(self._idle.pop()))
            self._at_work.add(task)
            task.add_done_callback(self._at_work.discard)
        return await result

    async def _work(self, thread: ThreadPoolExecutor) -> None:
        """Do one group after the other, in this thread, until none waits."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            left = self._next - loop.time()
            if left > 0 and len(self._waiting) < self._largest:
                self._full.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._full.wait(), left)
                continue
            self._next = loop.time() + APART
            group = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._largest))]
            items = [item for item, _ in group]
            try:
                results = await loop.run_in_executor(thread, self._function, items)
                for (_, future), result in zip(group, results, strict=True):
                    if not future.cancelled():
                        future.set_result(result)
            except Exception as error:  # also if the process ends
                for _, future in group:
                    if not future.done():
                        future.set_exception(error)
        self._idle.append(thread)


async def buy_async(job: Job) -> Result:
    """Buy in a coroutine, within the permission that the job has; `protect.leave` gives it back.

    The caller must not cancel it, since a request that was sent is bought.
    """
    started = time.monotonic()
    try:
        steps = job.carrier.announce(job.consignment)
        outcome = await transport_async.perform(steps, *job.limits())
    except BaseException:
        await asyncio.to_thread(protect.leave, [(job, None, 0.0)])
        raise
    return Result(job, outcome, time.monotonic() - started)


class Loop:
    """An event loop in a separate thread, for processes that have none: the worker.

    A message makes it take what waits in its queue, a group at a time, until for a while none has
    come. The first one starts it.
    """

    def __init__(self) -> None:
        self._started = self._draining = False
        # By queue, what messages named: only queues that are at work now.
        self._named: dict[str, list[int]] = {}
        self._lock = threading.Lock()
        # The event loop itself keeps only weak references.
        self._calls: set[asyncio.Task[Any] | None] = set()

    def _start(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._room = threading.BoundedSemaphore(settings.WORKER_CONCURRENCY)
        self._finished = Grouped(finish, at_once=RECORDING, largest=LARGEST)
        threading.Thread(target=self._loop.run_forever, name="announcer", daemon=True).start()
        self._started = True

    def ring(self, queue: str, announcement_ids: Sequence[int]) -> None:
        """Announce what waits in the queue; these, where nothing is known of it."""
        with self._lock:
            if not self._started:  # a worker's first messages come together
                self._start()
            if queue in self._named:
                self._named[queue].extend(announcement_ids)
                return
            # One for each queue: no carrier's queue waits behind another's. A daemon: whatever ends
            # the process also ends its claims, since what it buys then could not be recorded.
            threading.Thread(target=self._serve, args=[queue], daemon=True).start()
            self._named[queue] = list(announcement_ids)  # if a thread could be started

    def stop_listening(self) -> None:
        """Take no more than what messages have brought: the rest is left to other workers."""
        self._draining = True

    def drain(self) -> None:
        """Wait until what messages brought is recorded: a call ends by its own deadline."""
        self.stop_listening()
        if not self._started:
            return
        while self._named:
            time.sleep(APART)
        for _ in range(settings.WORKER_CONCURRENCY):
            self._room.acquire()

    def _serve(self, queue: str) -> None:
        """Claim what waits in the queue, a group each APART, and begin the calls; wait for room.

        It ends when nothing has come for LISTENING.
        """
        named: list[int] = []
        listens_until, calm = time.monotonic() + LISTENING, True
        while True:
            next_round = time.monotonic() + APART
            self._room.acquire()
            room = 1
            while room < LARGEST and self._room.acquire(blocking=False):
                room += 1
            # Only while this worker keeps up: no bell is rung for the others meanwhile.
            listens = calm and room == LARGEST and not self._draining
            listens = listens and time.monotonic() < listens_until
            with self._lock:
                named += self._named[queue]
                self._named[queue] = []
            jobs: list[Job] = []
            try:
                chosen = next_in_turn(queue, 0 if self._draining else room, listens=listens)
                if chosen:
                    named = []  # they have their turns
                    listens_until = time.monotonic() + LISTENING
                else:
                    chosen, named = named[:room], named[room:]
                jobs = prepare(chosen) if chosen else []
            except Exception:
                # The sweeper wakes them.
                log.exception("announcements of %s are not claimed", queue)
                chosen = []
            if len(jobs) < room:
                self._room.release(room - len(jobs))
            for job in jobs:
                self._loop.call_soon_threadsafe(self._loop.create_task, self._buy(job))
            with self._lock:
                if not (listens or chosen or named or self._named[queue]):
                    del self._named[queue]
                    return
            calm = len(chosen) < room and time.monotonic() < next_round
            time.sleep(max(0.0, next_round - time.monotonic()))

    async def _buy(self, job: Job) -> None:
        structlog.contextvars.bind_contextvars(announcement=job.announcement.pk)
        task = asyncio.current_task()
        self._calls.add(task)
        try:
            await self._finished(await buy_async(job))
        except Exception:
            log.exception("announcement %s", job.announcement.pk)  # its lease runs out
        finally:
            self._calls.discard(task)
            self._room.release()


# This process' own.
LOOP = Loop()
