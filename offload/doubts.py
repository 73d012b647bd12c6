"""The safety nets below waiting.py: what no wake-up told is found.

- Each REREAD everything that waits is read again: a lost wake-up costs two seconds at most;
- if Redis itself is in doubt (connection lost, data lost, a wake-up without an answer) the app is
asked, all holds in one request. Otherwise only about one late answer a minute: a worker whose store
is another one makes all of them late, and nothing else would say so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from functools import partial
from typing import TYPE_CHECKING, Protocol

from offload.batching import Batcher
from offload.counting import APP_ASKED, REDIS_UP
from offload.keys import ANSWER_KEY, EPOCH_KEY, LATE_KEY
from offload.protocol import NOTHING_KNOWN, Answer, Hold, decode_answer, public_headers
from offload.redis_clients import StoreTrouble

if TYPE_CHECKING:
    from offload.waiting import Waiters

logger = logging.getLogger("offload")

# Seconds between two readings of all that waits; with the reading itself it stays under two.
REREAD = 1.5
# Seconds that a doubt lasts. A release that failed or was left out (redis_clients.PAUSE) while
# Redis came back was committed before: asked about for this long, it is found.
DOUBT = 5.0
# Seconds for a last look when the client's deadline has come: its answer is due now. Redis answers
# in a millisecond; the rest is for a busy loop, and is what a black hole adds to each wait.
LAST_READ = 0.25
# Answers in one MGET: a hundred of 10 KB are one megabyte.
READ_CHUNK = 100
# Hold ids in one question to the app: one indexed query, and under SQLite's limit of variables.
ASK_CHUNK = 500
# Seconds for the app's answer. Longer than its slowest query should be.
ASK_TIMEOUT = 3.0
# Seconds between two looks at a late answer's hold, of which the app may know the outcome.
COMPARE = 60.0
# Seconds between two questions, and between two readings out of turn.
PAUSE_BETWEEN = 0.1


class Resolve(Protocol):
    """Ask the app. `final_only`: leave out what would still be a late answer."""

    async def __call__(self, hold_ids: list[str], *, final_only: bool) -> dict[str, Answer]: ...


class Doubts:
    """What one process doubts of its store, and what it does about it."""

    def __init__(self, waiters: Waiters, store: str, resolve: Resolve | None) -> None:
        self._waiters = waiters
        self._address = store
        self._resolve = resolve
        self._lost = False
        self._until = 0.0
        self._epoch: bytes | None = None
        self._kick = asyncio.Event()
        self._late_questions: Batcher[str, Answer | None] = Batcher(self._ask_late, most=ASK_CHUNK)
        self.doubted: dict[str, float] = {}

    # What is in doubt ------------------------------------------------------------------------

    def begin(self, why: str) -> None:
        """Doubt the whole store, for DOUBT seconds."""
        if not self._lost:
            logger.warning("%s is in doubt, the app is asked: %s", self._address, why)
            self._lost = True
            self._kick.set()
        self._until = time.monotonic() + DOUBT

    def miss(self, hold_id: str) -> None:
        """Doubt a hold that was released, but whose answer is not stored (any more)."""
        self._doubt(hold_id)
        self._waiters.run("ask", self._ask)

    def _doubt(self, hold_id: str) -> None:
        if hold_id in self._waiters.waits:
            self.doubted[hold_id] = time.monotonic() + DOUBT

    def hear(self) -> None:
        """Note that the wake-ups come (again), and read all: until now they went unheard."""
        self._waiters.counts.own[REDIS_UP] = 1
        self._kick.set()

    def _in_doubt(self) -> list[str]:
        now = time.monotonic()
        if now < self._until:
            return list(self._waiters.waits)
        self.doubted = {key: until for key, until in self.doubted.items() if now < until}
        return list(self.doubted)

    # Rereading -------------------------------------------------------------------------------

    async def reread_forever(self) -> None:
        """Read everything that waits, every REREAD seconds and when there is cause."""
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
            self._waiters.run("ask", self._ask)
        await self._check_epoch()
        await self._read_all()
        if self._in_doubt():
            self._waiters.run("ask", self._ask)
        healthy = time.monotonic() >= self._until and self._waiters.counts.own[REDIS_UP]
        if self._lost and healthy:
            self._lost = False
            logger.warning("%s answers again", self._address)

    async def _check_epoch(self) -> None:
        pipe = self._waiters.pipe
        with contextlib.suppress(StoreTrouble):
            made = pipe.ask("SET", EPOCH_KEY, secrets.token_hex(8), "NX")
            epoch = await pipe.ask("GET", EPOCH_KEY)
            await made
            if self._epoch not in (None, epoch):
                self.begin("it has lost its memory")
            self._epoch = epoch

    async def _read_all(self) -> None:
        all_ids = list(self._waiters.waits)
        for start in range(0, len(all_ids), READ_CHUNK):
            chunk = all_ids[start : start + READ_CHUNK]
            with contextlib.suppress(StoreTrouble):
                stored = await self._waiters.pipe.ask(
                    "MGET", *(ANSWER_KEY + each for each in chunk)
                )
                for hold_id, text in zip(chunk, stored, strict=True):
                    self._waiters.deliver(hold_id, text)

    async def last_read(self, hold_id: str) -> Answer | None:
        """Return the stored answer when the deadline has come, if there is one."""
        with contextlib.suppress(StoreTrouble, TimeoutError, ValueError):
            async with asyncio.timeout(LAST_READ):
                stored = await self._waiters.pipe.ask("GET", ANSWER_KEY + hold_id)
            return None if stored is None else decode_answer(stored)
        return None

    # Asking the app --------------------------------------------------------------------------

    async def late(self, hold: Hold, packed: bytes | None) -> Answer:
        """Return the late answer: the given one, or Redis', or the app's, or a bare 202."""
        if not self._waiters.draining:
            self._waiters.run("compare", partial(self._compare, hold.hold_id))
        late = await self.stored_late(hold, packed)
        if late is None:
            with contextlib.suppress(Exception):  # logged where it was asked
                async with asyncio.timeout(ASK_TIMEOUT):  # others' questions come first
                    late = await self._late_questions.ask(hold.hold_id)
        late = late or NOTHING_KNOWN
        return late._replace(headers=public_headers(late.headers))

    async def stored_late(self, hold: Hold, packed: bytes | None) -> Answer | None:
        """Return the given late answer, or the store's; None if neither can be had and read."""
        if packed is None:
            with contextlib.suppress(StoreTrouble, TimeoutError):
                async with asyncio.timeout(LAST_READ):
                    packed = await self._waiters.pipe.ask("GET", LATE_KEY + hold.nonce)
        if packed is not None:
            try:
                return decode_answer(packed)
            except ValueError:
                logger.exception("the stored late answer is unreadable")
        return None

    async def _compare(self, hold_id: str) -> None:
        """Look, now and then, whether outcomes come to this store at all."""
        await asyncio.sleep(DOUBT)  # one may be on its way
        healthy = time.monotonic() >= self._until
        if healthy and hold_id in await self._ask_app([hold_id], final_only=True, counts=False):
            with contextlib.suppress(StoreTrouble):
                if await self._waiters.pipe.ask("GET", ANSWER_KEY + hold_id) is None:
                    logger.warning(
                        "the app knows the outcome of hold %s, and %s has no answer: is it the"
                        " store of those who release, and can they reach it?",
                        hold_id,
                        self._address,
                    )
        await asyncio.sleep(COMPARE)

    async def _ask(self) -> None:
        doubted = self._in_doubt()
        for start in range(0, len(doubted), ASK_CHUNK):
            chunk = doubted[start : start + ASK_CHUNK]
            for hold_id, answer in (await self._ask_app(chunk, final_only=True)).items():
                self._waiters.deliver(hold_id, answer)
        await asyncio.sleep(PAUSE_BETWEEN)

    async def _ask_late(self, hold_ids: list[str]) -> list[Answer | None]:
        answers = await self._ask_app(hold_ids, final_only=False)
        return [answers.get(hold_id) for hold_id in hold_ids]

    async def _ask_app(
        self, hold_ids: list[str], *, final_only: bool, counts: bool = True
    ) -> dict[str, Answer]:
        if self._resolve is None:
            return {}
        self._waiters.counts.own[APP_ASKED] += counts
        try:
            async with asyncio.timeout(ASK_TIMEOUT):
                return await self._resolve(hold_ids, final_only=final_only)
        except Exception as error:
            logger.warning(
                "the app could not say anything about %d holds: %r", len(hold_ids), error
            )
            if final_only:  # asked again, until it answers
                for hold_id in hold_ids:
                    self._doubt(hold_id)
            return {}
