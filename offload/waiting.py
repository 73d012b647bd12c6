"""Holding clients until their answer is released: the core of the hub and of the ASGI middleware.

One subscription per process and a dictionary of waits by hold id. The order is subscribe, read,
wait, so that no release falls between. A wake-up is only a hint: what none told, doubts.py finds.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from offload import doubts
from offload.counting import ANSWERED, GONE, HELD, HOLDS, LATE, OVER_LIMIT, REDIS_UP, Counts
from offload.keys import ANSWER_KEY
from offload.protocol import Answer, ClientGone, Hold, Receive, decode_answer, merge
from offload.redis_clients import AsyncStore, RedisStore, address, reason

logger = logging.getLogger("offload")

# Holds in one process: 10,000 were measured, at a descriptor and some 16 KB each.
MAX_HOLDS = 10_000
# A tenth, so that one account with a slow carrier leaves room for the others.
MAX_HOLDS_PER_ACCOUNT = 1_000
# Seconds until the next try to subscribe: under one, so that a restart of Redis goes unnoticed.
RESUBSCRIBE = 0.5
# Seconds by which a timer may strike too early: uvloop rounds to milliseconds, and counts them from
# the last whole one. No client may wait less than it asked for.
TIMER_EARLY = 0.002


@dataclass(slots=True, eq=False)
class Wait:
    """One client's wait: an outcome ends it by making its time-out come early."""

    timeout: asyncio.Timeout
    answer: Answer | None = None


class Waiters:
    """All holds of one process; the limits are per process, too."""

    def __init__(
        self,
        store_url: str,
        *,
        resolve: doubts.Resolve | None = None,
        counts: Counts | None = None,
        max_holds: int = MAX_HOLDS,
        max_holds_per_account: int = MAX_HOLDS_PER_ACCOUNT,
    ) -> None:
        self.counts = counts or Counts()
        self.doubts = doubts.Doubts(self, address(store_url), resolve)
        self.store = _store_at(store_url, self.doubts.begin)
        self.pipe = self.store.pipe
        self._max_holds = max_holds
        self._max_per_account = max_holds_per_account
        self._by_account: Counter[str] = Counter()
        self.draining = False
        self.waits: dict[str, list[Wait]] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    # Life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to listen; safe to call again."""
        self.run("listen", self._listen)
        self.run("reread", self.doubts.reread_forever)

    async def stop(self) -> None:
        """End everything that was started."""
        self.drain()
        while tasks := list(self.tasks.values()):
            for task in tasks:  # again: before Python 3.12 wait_for may drop a cancellation
                task.cancel()
            await asyncio.wait(tasks, timeout=RESUBSCRIBE)
        await self.store.aclose()

    def drain(self) -> None:
        """Give all holds their late answer, and also every new one."""
        self.draining = True
        for hold_id in self.waits:
            self.deliver(hold_id, None)

    async def _listen(self) -> None:
        while True:
            try:
                async with contextlib.aclosing(self.store.wake_ups(doubts.REREAD)) as wake_ups:
                    async for hold_id in wake_ups:
                        if hold_id is None:
                            self.doubts.hear()
                        elif hold_id in self.waits:
                            asked = self.pipe.ask("GET", ANSWER_KEY + hold_id)
                            asked.add_done_callback(partial(self._take, hold_id, woken=True))
            except self.store.trouble as error:
                self.doubts.begin(f"subscription lost: {reason(error)}")
            except Exception:
                logger.exception("the subscription failed in a way nobody thought of")
            self.counts.own[REDIS_UP] = 0
            await asyncio.sleep(RESUBSCRIBE)

    def run(self, name: str, work: Callable[[], Any]) -> None:
        """Run one task of each name at a time."""
        if name not in self.tasks:
            task = asyncio.get_running_loop().create_task(work())
            self.tasks[name] = task
            task.add_done_callback(lambda _: self.tasks.pop(name))

    # Holding ---------------------------------------------------------------------------------

    async def park(self, hold: Hold, packed: bytes | None, receive: Receive) -> Answer | None:
        """Hold the client and return its answer, or None when it has disconnected.

        `packed` is the encoded late answer, None where it could not be had.
        """
        count, account = self.counts.own, hold.account
        full = account and self._by_account[account] >= self._max_per_account
        if full or count[HOLDS] >= self._max_holds:
            count[OVER_LIMIT] += 1
            return await self.doubts.late(hold, packed)
        count[HOLDS] += 1
        count[HELD] += 1
        self._by_account[account] += 1
        try:
            answer = await self.wait(hold.hold_id, hold.deadline, receive)
        except ClientGone:
            count[GONE] += 1
            return None
        finally:
            count[HOLDS] -= 1
            self._by_account[account] -= 1
            if not self._by_account[account]:
                del self._by_account[account]
        if answer is None:
            count[LATE] += 1
            return await self.doubts.late(hold, packed)
        count[ANSWERED] += 1
        try:
            return merge(answer, decode_answer(packed or b""))
        except ValueError:  # none was given, or it is unreadable
            return merge(answer, await self.doubts.stored_late(hold, packed))

    async def wait(self, hold_id: str, deadline: float, receive: Receive) -> Answer | None:
        """Wait until the hold is released, and return its answer; None at its deadline.

        `deadline` is in seconds since the epoch; `receive` is the connection's ASGI callable,
        read only for its disconnect: ClientGone.
        """
        if self.draining:
            return None
        wait = Wait(asyncio.timeout(max(0.0, deadline - time.time()) + TIMER_EARLY))
        self.waits.setdefault(hold_id, []).append(wait)
        try:
            async with wait.timeout:
                # No name for the reply: it would stay in memory for as long as the client waits.
                self.pipe.ask("GET", ANSWER_KEY + hold_id).add_done_callback(
                    partial(self._take, hold_id)
                )
                # The body before the disconnect is ignored: the ticket has all data.
                while (await receive())["type"] != "http.disconnect":
                    pass
                raise ClientGone
        except TimeoutError:
            if wait.answer is not None or self.draining:
                return wait.answer
        finally:
            self.waits[hold_id].remove(wait)
            if not self.waits[hold_id]:
                del self.waits[hold_id]
                self.doubts.doubted.pop(hold_id, None)
        return await self.doubts.last_read(hold_id)

    def _take(
        self, hold_id: str, reply: asyncio.Future[bytes | None], *, woken: bool = False
    ) -> None:
        """Deliver the store's reply; a hold without one is in doubt if a wake-up told of it."""
        stored = None if reply.cancelled() or reply.exception() else reply.result()
        if not self.deliver(hold_id, stored) and woken:
            self.doubts.miss(hold_id)

    def deliver(self, hold_id: str, answer: Answer | bytes | None) -> bool:
        """End all waits for this hold with the answer, stored or not; False if it is none.

        While this process drains they end without one, too; the first answer counts.
        """
        if isinstance(answer, bytes):
            try:
                answer = decode_answer(answer)
            except ValueError:
                logger.exception("the stored answer of hold %s is unreadable", hold_id)
                return False
        if answer is None and not self.draining:
            return False
        for wait in self.waits.get(hold_id, ()):
            wait.answer = wait.answer or answer
            if not wait.timeout.expired():
                wait.timeout.reschedule(0.0)  # long past
        return True


def _store_at(url: str, on_trouble: Callable[[str], None]) -> AsyncStore:
    """Return the store at that address, by its scheme."""
    if url.startswith("postgresql:"):
        from offload.postgresql.listening import PostgresStore  # psycopg is an extra

        return PostgresStore(url, on_trouble)
    return RedisStore(url, on_trouble)
