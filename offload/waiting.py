"""Waiting for released answers: the core of the hub and of the ASGI middleware.

One subscription per process and a dictionary of futures by hold id. The order is subscribe, read,
wait, so that no release falls between. A wake-up is only a hint:

- each REREAD everything that waits is read again: a lost wake-up costs two seconds at most;
- if Redis itself is in doubt (connection lost, data lost, a wake-up without an answer) the app is
asked, all holds in one request. Otherwise it is never asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import functools
import itertools
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Protocol

from offload import protocol
from offload.answer import NOTHING_KNOWN, Answer, decode_answer, unpack
from offload.batching import Batcher
from offload.counting import Counts
from offload.redis_clients import AsyncStore, RedisStore, StoreTrouble, address

logger = logging.getLogger("offload")

# Seconds between two readings of all that waits; with the reading itself it stays under two.
REREAD = 1.5
# Seconds that a doubt lasts. A release that failed or was left out (redis_clients.PAUSE) while
# Redis came back was committed before: asked about for this long, it is found.
DOUBT = 5.0
# Seconds until the next try to subscribe: under one, so that a restart of Redis goes unnoticed.
RESUBSCRIBE = 0.5
# Seconds for a last look when the client's deadline has come: its answer is due now. Redis answers
# in a millisecond; the rest is for a busy loop, and is what a black hole adds to each wait.
LAST_READ = 0.25
# Answers in one MGET: a hundred of 10 KB are one megabyte.
READ_CHUNK = 100
# Hold ids in one question to the app: one indexed query, and under SQLite's limit of variables.
ASK_CHUNK = 500
# Seconds for the app's answer. Longer than its slowest query should be.
ASK_TIMEOUT = 3.0
# Seconds between two questions, and between two readings out of turn.
PAUSE_BETWEEN = 0.1
# Seconds by which a timer may strike too early: uvloop rounds to milliseconds, and counts them from
# the last whole one. No client may wait less than it asked for.
TIMER_EARLY = 0.002

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Waiting = asyncio.Future["Answer | Ending"]


class Resolve(Protocol):
    """Ask the app. `final_only`: leave out what would still be a late answer."""

    async def __call__(self, hold_ids: list[str], *, final_only: bool) -> dict[str, Answer]: ...


class Ending(enum.Enum):
    """How a hold ends without a released answer."""

    LATE = "late"
    GONE = "gone"


class Waiters:
    """All holds of one process."""

    def __init__(self, store_url: str, *, resolve: Resolve | None, counts: Counts) -> None:
        self._address = address(store_url)
        self._store = _store_at(store_url, self._doubt)
        self.pipe = self._store.pipe
        self._lost = False
        self._resolve = resolve
        self._counts = counts
        self.draining = False
        self._futures: dict[str, list[Waiting]] = {}
        self._woken: set[str] = set()
        self._doubted: dict[str, float] = {}
        self._doubt_until = 0.0
        self._epoch: bytes | None = None
        self._kick = asyncio.Event()
        self._late_questions: Batcher[str, Answer | None] = Batcher(self._ask_late, most=ASK_CHUNK)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    # Life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to listen; safe to call again."""
        self._run("listen", self._listen)
        self._run("reread", self._reread_forever)

    async def stop(self) -> None:
        """End everything that was started."""
        self.drain()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._store.aclose()

    def drain(self) -> None:
        """Give all holds their late answer, and also every new one."""
        self.draining = True
        for future in itertools.chain.from_iterable(self._futures.values()):
            _settle(future, Ending.LATE)

    # Holding ---------------------------------------------------------------------------------

    async def wait(self, hold_id: str, deadline: float, receive: Receive) -> Answer | Ending:
        """Wait until the hold is released, its deadline has come or its client is gone.

        `deadline` is in seconds since the epoch; `receive` is the connection's ASGI callable,
        read only for its disconnect.
        """
        if self.draining:
            return Ending.LATE
        loop = asyncio.get_running_loop()
        future: Waiting = loop.create_future()
        self._futures.setdefault(hold_id, []).append(future)
        left = max(0.0, deadline - time.time()) + TIMER_EARLY
        timer = loop.call_later(left, _settle, future, Ending.LATE)
        watch = loop.create_task(_hang_up(receive))
        watch.add_done_callback(lambda _: _settle(future, Ending.GONE))
        try:
            # No name for the reply: it would stay in memory for as long as the client waits.
            self.pipe.ask("GET", protocol.answer_key(hold_id)).add_done_callback(
                functools.partial(self._take_reply, hold_id)
            )
            ending = await future
        finally:
            timer.cancel()
            watch.cancel()
            self._futures[hold_id].remove(future)
            if not self._futures[hold_id]:
                del self._futures[hold_id]
                self._doubted.pop(hold_id, None)
        if ending is Ending.LATE and not self.draining:
            return await self._last_read(hold_id)
        return ending

    async def late(self, ticket: protocol.Ticket, packed: bytes | None) -> Answer:
        """Return the late answer: the given one, or Redis', or the app's, or a bare 202."""
        if packed is None:
            with contextlib.suppress(StoreTrouble, TimeoutError):
                async with asyncio.timeout(LAST_READ):
                    packed = await self.pipe.ask("GET", protocol.late_key(ticket.nonce))
        if packed is not None:
            try:
                return unpack(packed)
            except ValueError:
                logger.exception("the stored late answer is unreadable")
        with contextlib.suppress(Exception):  # logged where it was asked
            return await self._late_questions.ask(ticket.hold_id) or NOTHING_KNOWN
        return NOTHING_KNOWN

    def _deliver(self, hold_id: str, answer: Answer) -> None:
        for future in self._futures.get(hold_id, ()):
            _settle(future, answer)

    # Reading ---------------------------------------------------------------------------------

    def _take_reply(self, hold_id: str, reply: asyncio.Future[Any]) -> None:
        if not reply.cancelled() and reply.exception() is None:
            self._take(hold_id, reply.result())

    def _take(self, hold_id: str, stored: bytes | None) -> bool:
        if stored is None:
            return False
        try:
            self._deliver(hold_id, decode_answer(stored))
        except ValueError:
            logger.exception("the stored answer of hold %s is unreadable", hold_id)
            return False
        return True

    async def _last_read(self, hold_id: str) -> Answer | Ending:
        try:
            async with asyncio.timeout(LAST_READ):
                stored = await self.pipe.ask("GET", protocol.answer_key(hold_id))
            return Ending.LATE if stored is None else decode_answer(stored)
        except (StoreTrouble, TimeoutError, ValueError):
            return Ending.LATE

    async def _read(self, hold_ids: Iterable[str]) -> list[str]:
        """Deliver what Redis has and return the hold ids it has nothing for."""
        missing: list[str] = []
        for chunk in _chunks(list(hold_ids), READ_CHUNK):
            try:
                stored = await self.pipe.ask("MGET", *map(protocol.answer_key, chunk))
            except StoreTrouble:
                stored = [None] * len(chunk)
            pairs = zip(chunk, stored, strict=True)
            missing += [hold_id for hold_id, text in pairs if not self._take(hold_id, text)]
        return missing

    async def _read_woken(self) -> None:
        while self._woken:
            woken, self._woken = self._woken, set()
            missing = await self._read(woken)
            if missing:  # released, and not there: evicted, flushed or never written
                until = time.monotonic() + DOUBT
                self._doubted |= {hold_id: until for hold_id in missing if hold_id in self._futures}
                self._run("ask", self._ask)

    # Listening -------------------------------------------------------------------------------

    async def _listen(self) -> None:
        while True:
            try:
                await self._subscribe_and_hear()
            except self._store.trouble as error:
                self._doubt(f"subscription lost: {error!r}")
            except Exception:
                logger.exception("the subscription failed in a way nobody thought of")
            self._counts.set("redis_up", 0)
            await asyncio.sleep(RESUBSCRIBE)

    async def _subscribe_and_hear(self) -> None:
        async with contextlib.aclosing(self._store.wake_ups(REREAD)) as wake_ups:
            async for hold_id in wake_ups:
                if hold_id is None:
                    self._take_up()
                elif hold_id in self._futures:
                    self._woken.add(hold_id)
                    self._run("woken", self._read_woken)

    def _take_up(self) -> None:
        self._counts.set("redis_up", 1)
        if self._lost:
            self._lost = False
            logger.warning("%s answers again", self._address)
        self._kick.set()  # read all: what was published until now went unheard

    # The safety net --------------------------------------------------------------------------

    async def _reread_forever(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REREAD):
                    await self._kick.wait()
            self._kick.clear()
            try:
                await self._reread()
            except Exception:
                logger.exception("rereading failed; tried again")
            await asyncio.sleep(PAUSE_BETWEEN)

    async def _reread(self) -> None:
        if self._in_doubt():
            self._run("ask", self._ask)
        await self._check_epoch()
        await self._read(self._futures)
        if self._in_doubt():
            self._run("ask", self._ask)

    async def _check_epoch(self) -> None:
        with contextlib.suppress(StoreTrouble):
            made = self.pipe.ask("SET", protocol.EPOCH_KEY, secrets.token_hex(8), "NX")
            epoch = await self.pipe.ask("GET", protocol.EPOCH_KEY)
            await made
            if self._epoch not in (None, epoch):
                self._doubt("it has lost its memory")
            self._epoch = epoch

    def _doubt(self, why: str) -> None:
        now = time.monotonic()
        if now >= self._doubt_until:
            logger.warning("%s is in doubt, the app is asked: %s", self._address, why)
            self._lost = True
            self._kick.set()
        self._doubt_until = now + DOUBT

    def _in_doubt(self) -> list[str]:
        now = time.monotonic()
        if now < self._doubt_until:
            return list(self._futures)
        self._doubted = {key: until for key, until in self._doubted.items() if now < until}
        return list(self._doubted)

    # Asking the app --------------------------------------------------------------------------

    async def _ask(self) -> None:
        for chunk in _chunks(self._in_doubt(), ASK_CHUNK):
            for hold_id, answer in (await self._ask_app(chunk, final_only=True)).items():
                self._deliver(hold_id, answer)
        await asyncio.sleep(PAUSE_BETWEEN)

    async def _ask_late(self, hold_ids: list[str]) -> list[Answer | None]:
        answers = await self._ask_app(hold_ids, final_only=False)
        return [answers.get(hold_id) for hold_id in hold_ids]

    async def _ask_app(self, hold_ids: list[str], *, final_only: bool) -> dict[str, Answer]:
        if self._resolve is None:
            return {}
        self._counts.add("app_asked_total")
        try:
            async with asyncio.timeout(ASK_TIMEOUT):
                return await self._resolve(hold_ids, final_only=final_only)
        except Exception as error:
            logger.warning(
                "the app could not say anything about %d holds: %r", len(hold_ids), error
            )
            return {}

    def _run(self, name: str, work: Callable[[], Any]) -> None:
        """Run one task of each name at a time."""
        if name not in self._tasks:
            task = asyncio.get_running_loop().create_task(work())
            self._tasks[name] = task
            task.add_done_callback(lambda _: self._tasks.pop(name))


def _settle(future: Waiting, ending: Answer | Ending) -> None:
    if not future.done():
        future.set_result(ending)


async def _hang_up(receive: Receive) -> None:
    # The body before the disconnect is ignored: the ticket has all data.
    while (await receive())["type"] != "http.disconnect":
        pass


def _chunks(items: list[str], size: int) -> Iterable[list[str]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _store_at(url: str, on_trouble: Callable[[str], None]) -> AsyncStore:
    """Return the store at that address, by its scheme."""
    if url.startswith("postgresql:"):
        from offload.postgresql.listening import PostgresStore  # psycopg is an extra

        return PostgresStore(url, on_trouble)
    return RedisStore(url, on_trouble)
