"""Waiters among a store, an app and clients that fail or leave in any order; no run really waits.

OFFLOAD_RUNS sets how many runs the search tries (default 30), each with a seed of its own.
"""

import asyncio
import contextlib
import gc
import itertools
import math
import os
import random
import time

import pytest

from offload.counting import HOLDS
from offload.doubts import ASK_TIMEOUT, DOUBT, LAST_READ, Doubts
from offload.keys import ANSWER_KEY
from offload.protocol import NOTHING_KNOWN, Answer, Hold, decode_answer, encode_answer
from offload.tests.virtual import World, run
from offload.waiting import Waiters

RUNS = int(os.environ.get("OFFLOAD_RUNS", "30"))
# Seconds of a run in which something happens.
LENGTH = 40.0
# Seconds in which a client gets what was released: those promised, and the model's own delays.
PROMISED = 2.0 + 0.4
LATE = Answer(202, (), b"late")
# A process with forty clients: a round each PAUSE_BETWEEN, batches, questions of late clients.
MOST_CALLS = {"store": 150, "app": 40}


class Run(World):
    def __init__(self, seed):
        self.random = random.Random(seed)
        super().__init__(lambda: self.random.choice((0.0, 0.001, 0.02)))
        self.own = self.waiters(
            max_holds=self.random.choice((8, 1000)), max_holds_per_account=self.choice(3, 1000)
        )
        self.ids = map("{:032x}".format, itertools.count())
        self.holds = [next(self.ids) for _ in range(3)]
        self.faults: list[list[float]] = []
        self.released: dict[str, float] = {}
        self.since: dict[str, float] = {}
        self.valid: dict[str, set[bytes]] = {}
        self.wrong: list[object] = []

    def choice(self, *these):
        return self.random.choice(these)

    def check(self, right, *what):
        if not right:
            self.wrong.append((round(time.time() - 1000, 3), *what))

    def quiet(self, since, until):
        """Return the longest stretch without a fault."""
        longest = 0.0
        for start, end in [*sorted(self.faults), [until, until]]:
            longest = max(longest, min(start, until) - since)
            since = max(since, end)
        return longest

    # What happens ----------------------------------------------------------------------------

    async def arrive(self):
        hold_id, wait, account = self.choice(*self.holds), self.choice(-1, 0.01, 1, 5, 20), "one"
        if hold_id in self.known and ANSWER_KEY + hold_id not in self.stored:
            return  # neither front nor app would let it wait
        leaves = self.choice(0, wait, 4, *[1000] * 9)
        arrived, ready = time.time(), ANSWER_KEY + hold_id in self.stored
        waiters, hold = self.own, Hold(hold_id, account, arrived + wait, "nonce")
        full = waiters.counts.own[HOLDS] >= waiters._max_holds
        full |= waiters._by_account[account] >= waiters._max_per_account

        async def receive():
            await asyncio.sleep(leaves)
            return {"type": "http.disconnect"}

        packed = self.choice(None, encode_answer(LATE, packed=True))
        answer = await waiters.park(hold, packed, receive)
        ended = time.time()
        deadline = max(arrived, hold.deadline)
        what = hold_id[-2:], wait, answer and answer.body
        self.check(ended < deadline + ASK_TIMEOUT + 2 * LAST_READ + 0.1, "too late", *what)
        if answer is None:
            self.check(ended > arrived + leaves - 0.001, "cut off", *what)
        elif answer.status != 202:
            valid = {self.known[hold_id].body} | self.valid.get(hold_id, set())
            self.check(answer.body in valid, "not its answer", *what)
        else:
            self.check(answer in {LATE, NOTHING_KNOWN}, "not its late answer", *what)
        if full or waiters.draining or answer is None:
            return
        self.check(answer.status != 202 or ended >= hold.deadline, "too early", *what)
        before = time.time()
        released = self.released.get(hold_id, before)
        waited = self.quiet(max(arrived, released), min(ended, deadline))
        self.check(waited < PROMISED, "not told", *what)
        begin = min(arrived, hold.deadline) - 1.0
        if self.quiet(begin, ended) == ended - begin:
            known = self.since.get(hold_id, math.inf) < hold.deadline - 0.1
            stored = ready or (known and ANSWER_KEY + hold_id in self.stored)
            self.check(not stored or answer.status != 202, "late for nothing", *what)
            self.check(not ready or ended - arrived < 0.5, "slow", *what)

    async def release(self):
        waiting = [each for each in self.own.waits if each not in self.known]
        hold_id = self.choice(*waiting * 3, *self.holds)
        answer = Answer(200, (), f"{hold_id} {self.random.random()}".encode())
        self.known.setdefault(hold_id, answer)
        with contextlib.suppress(OSError):
            if self.choice(*[False] * 9, True):
                self.wake(hold_id)
            await self.put(hold_id, answer)
            stored = decode_answer(self.stored[ANSWER_KEY + hold_id])
            self.valid.setdefault(hold_id, set()).add(stored.body)
            lost = False
            if stored == answer:  # the first, or the first after a loss
                self.since[hold_id] = time.time()
                lost = self.choice(*[False] * 5, True)
            if lost:
                del self.stored[ANSWER_KEY + hold_id]
            for _ in range(1 if lost else self.choice(0, 1, 20)):
                self.wake(hold_id)
        self.released.setdefault(hold_id, time.time())

    async def fail(self, part, kind, seconds, after):
        """Let the store or the app fail; `after` is for what is on its way at the end."""
        if getattr(self, part) != "well":
            return
        fault = [time.time(), math.inf]
        self.faults.append(fault)
        setattr(self, part, kind)
        if kind == "refuses":
            self.cut()
        await asyncio.sleep(seconds)
        setattr(self, part, "well")
        fault[1] = time.time() + after

    async def trouble_of_store(self):
        # A silence that is shorter may go unnoticed here while a release fails.
        one = ("refuses", self.choice(0.01, 1, 8), 0.6), ("silent", self.choice(4, 8), 1.0)
        await self.fail("store", *self.choice(*one))

    async def trouble_of_app(self):
        seconds = self.choice(0.5, 3, 12)
        await self.fail(
            "app", *self.choice(("raises", seconds, 0), ("hangs", seconds, ASK_TIMEOUT))
        )

    async def lose(self):
        one = self.choice("memory", "reply", "subscription")
        # The next reply comes with the next reading.
        self.faults.append([time.time(), time.time() + (2.5 if one == "reply" else 0.6)])
        if one == "memory":
            for hold_id in self.own.waits:  # what was just released, with its wake-up
                self.known.setdefault(hold_id, Answer(200, (), hold_id.encode()))
                self.released.setdefault(hold_id, time.time())
            self.stored.clear()
        elif one == "reply":
            self.loses_reply = True
        else:
            self.cut()

    async def main(self):
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.wrong.append(context))
        self.own.start()
        await asyncio.sleep(1.0)  # until it listens: the wake-up of a lost answer must be heard
        often = self.choice(0.1, 0.3, 1)
        weights = {self.arrive: 12, self.release: 6}
        weights |= dict.fromkeys((self.lose, self.trouble_of_store, self.trouble_of_app), often)
        tasks, ending = [], self.choice(0.5, 1, 1, 1) * LENGTH
        start = time.time()
        while time.time() < start + LENGTH:
            if time.time() > start + ending:
                self.own.drain()
                if self.choice(*[False] * 9, True):
                    await self.own.stop()
            (happens,) = self.random.choices([*weights], [*weights.values()])
            tasks.append(loop.create_task(happens()))
            if happens == self.release:
                self.holds.append(next(self.ids))
            await asyncio.sleep(self.choice(0, 0, 0.001, 0.3, 1))
            self.check(self.own.counts.own[HOLDS] <= self.own._max_holds, "too many")
            accounts = self.own._by_account.values()
            self.check(max(accounts, default=0) <= self.own._max_per_account, "too many of one")
        await asyncio.gather(*tasks)
        await asyncio.sleep(2 * DOUBT)
        left = self.own.counts.own[HOLDS], self.own.waits, self.own.doubts.doubted
        self.check(not any(left) and not self.own._by_account, "left over", *left)
        self.check(set(self.own.tasks) <= {"listen", "reread", "compare"}, *self.own.tasks)
        await self.own.stop()
        await asyncio.sleep(1.0)  # replies that are on their way
        self.check(asyncio.all_tasks() == {asyncio.current_task()}, "still running")
        for (name, second), count in self.calls.items():
            self.check(count <= MOST_CALLS[name], "busy", name, second, count)
        gc.collect()


def search(seeds):
    """Return what was wrong first, and its seed."""
    for seed in seeds:
        one = Run(seed)
        run(one.main())
        if one.wrong:
            return seed, one.wrong
    return None


def test_each_client_gets_its_answer():
    assert search(range(RUNS)) is None


async def nothing(*_):
    pass


def only_if_woken(self, hold_id, reply, *, woken=False, take=Waiters._take):
    if woken:
        take(self, hold_id, reply, woken=True)


@pytest.mark.parametrize(
    ("where", "guard", "instead"),
    [
        (Waiters, "_take", only_if_woken),
        (Doubts, "_read_all", nothing),
        (Doubts, "last_read", nothing),
        (Doubts, "_check_epoch", nothing),
        (Doubts, "begin", lambda *_: None),
        (Doubts, "miss", lambda *_: None),
        (Doubts, "_doubt", lambda *_: None),
    ],
)
def test_each_guard_is_needed(where, guard, instead, monkeypatch):
    monkeypatch.setattr(where, guard, instead)
    assert search(range(10 * RUNS)) is not None
