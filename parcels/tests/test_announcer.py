"""Announcing in an event loop: groups of what comes together, and no thread for a call."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from parcels.services import announcer as module
from parcels.services.announcer import Announcer, Grouped, Loop


class Slow:
    """Doubles numbers, when it is let; `groups` are what came together."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)
        self.groups: list[list[int]] = []

    def __call__(self, numbers: Sequence[int]) -> list[int]:
        self.groups.append(list(numbers))
        self.begun.release()
        assert self.go.wait(10)
        if 13 in numbers:
            raise ValueError("13")
        return [2 * number for number in numbers]


async def asked(grouped: Grouped[int, int], *numbers: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(grouped(number)) for number in numbers]
    await asyncio.sleep(0)
    return tasks


def test_a_workers_first_messages_share_one_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """They come together. Two loops wake each other by nothing: a label waited for its lease."""

    def made() -> SimpleNamespace:
        time.sleep(0.1)
        return SimpleNamespace()

    monkeypatch.setattr(module, "Loop", made)
    monkeypatch.setattr(module, "_made", [])
    with ThreadPoolExecutor(4) as pool:
        loops = [each.result() for each in [pool.submit(module.loop) for _ in range(4)]]
    assert len({id(each) for each in loops}) == 1


async def test_what_is_asked_for_meanwhile_is_done_together() -> None:
    slow = Slow()
    grouped = Grouped(slow, at_once=1, largest=3)
    first = await asked(grouped, 1)
    assert await asyncio.to_thread(slow.begun.acquire, timeout=10)
    rest = await asked(grouped, 2, 3, 4, 5)
    slow.go.set()
    assert await asyncio.gather(*first, *rest) == [2, 4, 6, 8, 10]
    assert slow.groups == [[1], [2, 3, 4], [5]]


async def test_a_group_that_fails_fails_for_each_and_leaves_the_others() -> None:
    slow = Slow()
    slow.go.set()
    grouped = Grouped(slow, at_once=2, largest=2)
    tasks = await asked(grouped, 13, 1, 2, 3)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(result) for result in results] in (["13", "2", "4", "6"], ["13", "13", "4", "6"])


async def test_one_that_stops_waiting_leaves_its_group() -> None:
    slow = Slow()
    grouped = Grouped(slow, at_once=1, largest=2)
    one, two = await asked(grouped, 1, 2)
    one.cancel()
    slow.go.set()
    assert await two == 4


@pytest.fixture
def carrier(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A carrier that answers when it is let, without a database; `seen` is what was recorded."""
    here = SimpleNamespace(go=threading.Event(), seen=[], in_flight=0, most=0, left=[])

    async def buy(job: Any) -> tuple[str, float]:
        here.in_flight += 1
        here.most = max(here.most, here.in_flight)
        while not here.go.is_set():  # noqa: ASYNC110 # the test is another thread
            await asyncio.sleep(0.01)
        here.in_flight -= 1
        if job == "broken":
            raise OSError("broken")
        return "announced", 0.1

    def prepare(queue: str, ids: Sequence[int]) -> list[Any]:
        return [None if number == 0 else "broken" if number == 13 else number for number in ids]

    def finish(results: Sequence[Any]) -> list[None]:
        here.seen += [result.job for result in results]
        return [None] * len(results)

    monkeypatch.setattr(module, "buy_async", buy)
    monkeypatch.setattr(module, "_prepare", prepare)
    monkeypatch.setattr(module, "_finish", finish)
    monkeypatch.setattr(module, "leave", lambda job, _: here.left.append(job))
    made = Announcer()
    monkeypatch.setattr(module, "announcer", lambda: made)
    return here


def test_a_thousand_calls_take_no_thread_each(carrier: SimpleNamespace, settings: Any) -> None:
    settings.WORKER_CONCURRENCY = 1000
    before = threading.active_count()
    loop = Loop()
    for number in range(1, 1001):
        loop.submit(number, "announce.postnl")
    while carrier.in_flight < 900:  # 13 among them, and 0 is not
        pass
    assert threading.active_count() - before <= 1 + module.CLAIMING + module.RECORDING
    carrier.go.set()
    loop.drain()
    assert sorted(carrier.seen) == [number for number in range(1, 1001) if number != 13]
    assert carrier.left == ["broken"]  # its permission goes back


def test_more_than_there_is_room_for_waits(carrier: SimpleNamespace, settings: Any) -> None:
    settings.WORKER_CONCURRENCY = 2
    loop = Loop()
    loop.submit(0, "announce.postnl")  # nothing to be done: its room is free again
    for number in (1, 2):
        loop.submit(number, "announce.postnl")
    third = threading.Thread(target=loop.submit, args=(3, "announce.postnl"))
    third.start()
    third.join(0.2)
    assert third.is_alive()
    carrier.go.set()
    third.join(10)
    loop.drain()
    assert sorted(carrier.seen) == [1, 2, 3]
    assert carrier.most == 2


async def test_a_queue_s_backlog_keeps_no_other_queue_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[int] = []
    go_on = threading.Event()

    def prepare(queue: str, ids: Sequence[int]) -> list[None]:
        begun.extend(ids)
        assert queue != "announce.postnl" or go_on.wait(10)
        return [None] * len(ids)

    monkeypatch.setattr(module, "_prepare", prepare)
    announcer = Announcer()
    backlog = [asyncio.create_task(announcer.announce(n, "announce.postnl")) for n in range(1, 6)]
    await asyncio.wait_for(announcer.announce(0, "announce.tortoise"), 10)
    assert begun[0] == 1
    assert set(begun) == {0, 1}  # and none of the other four
    go_on.set()
    await asyncio.gather(*backlog)
    assert sorted(begun) == [0, 1, 2, 3, 4, 5]
