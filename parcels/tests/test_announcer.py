"""Announcing in an event loop: groups of what comes together, and no thread for a call."""

import asyncio
import functools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop
from structlog import contextvars

from carriers import transport_async
from parcels.services import announce, protect
from parcels.services import announcer as module
from parcels.services.announcer import Grouped, Loop

POSTNL = "announce.postnl"


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


@pytest.fixture(autouse=True)
def _no_loop_listens_to_the_next_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    loops: list[Loop] = []
    begin = Loop.__init__

    def noting(loop: Loop) -> None:
        begin(loop)
        loops.append(loop)

    monkeypatch.setattr(Loop, "__init__", noting)
    yield
    for loop in loops:
        loop._draining = True
        while loop._named:
            pass


async def asked(grouped: Grouped[int, int], *numbers: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(grouped(number)) for number in numbers]
    await asyncio.sleep(0)
    return tasks


def test_a_workers_first_messages_share_one_loop(
    carrier: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come together. Two loops wake each other by nothing: a label waited for its lease."""

    made = []

    def slowly() -> Any:
        time.sleep(0.1)
        made.append(uvloop.new_event_loop())
        return made[-1]

    monkeypatch.setattr(module, "uvloop", SimpleNamespace(new_event_loop=slowly))
    carrier.go.set()
    loop = Loop()
    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(loop.ring, POSTNL, [number]) for number in range(1, 5)]:
            each.result()
    loop.drain()
    assert len(made) == 1
    assert sorted(carrier.seen) == [1, 2, 3, 4]


async def test_what_is_asked_for_meanwhile_is_done_together() -> None:
    slow = Slow()
    grouped = Grouped(slow, at_once=1, largest=3)
    first = await asked(grouped, 1)
    assert await asyncio.to_thread(slow.begun.acquire, timeout=10)
    rest = await asked(grouped, 2, 3, 4, 5)
    slow.go.set()
    assert await asyncio.gather(*first, *rest) == [2, 4, 6, 8, 10]
    assert slow.groups == [[1], [2, 3, 4], [5]]


async def test_what_one_event_loop_announces_at_once_is_claimed_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    claimed: list[list[int]] = []

    def prepare(announcement_ids: Sequence[int]) -> list[None]:
        claimed.append([*announcement_ids])
        return [None] * len(announcement_ids)

    monkeypatch.setattr(announce, "_prepare", prepare)
    monkeypatch.setattr(announce, "_groups", functools.cache(announce._groups.__wrapped__))
    await asyncio.gather(*map(announce.announce_async, (1, 2, 3)))
    assert claimed == [[1, 2, 3]]


async def test_what_comes_soon_after_a_group_waits_for_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "APART", 0.5)
    slow = Slow()
    slow.go.set()
    grouped = Grouped(slow, at_once=2, largest=3)
    assert await grouped(1) == 2
    tasks = [*await asked(grouped, 2), *await asked(grouped, 3)]
    assert slow.groups == [[1]]
    assert await asyncio.gather(*tasks) == [4, 6]
    await asyncio.gather(*await asked(grouped, 4, 5, 6))  # a full group goes at once
    assert slow.groups == [[1], [2, 3], [4, 5, 6]]


async def test_a_group_that_fails_fails_for_each_and_leaves_the_others() -> None:
    slow = Slow()
    slow.go.set()
    grouped = Grouped(slow, at_once=2, largest=2)
    tasks = await asked(grouped, 13, 1, 2, 3)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(result) for result in results] in (["13", "2", "4", "6"], ["13", "13", "4", "6"])


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_names_that_resolve_slowly_leave_threads_for_the_others() -> None:
    """A look-up that was given up keeps its thread for as long as the resolver takes."""
    code = (
        "import os, django; django.setup()\n"
        "from parcels.services import announcer\n"
        "loop = announcer.uvloop.new_event_loop()\n"
        "loop.run_until_complete(loop.getaddrinfo('localhost', 80))\n"
        "print(len(os.listdir('/proc/self/task')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert int(done.stdout) > 2 * module.LARGEST


def exhausted(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


async def test_a_system_without_threads_leaves_no_group_to_a_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An executor keeps a call for which it can't start a thread, and makes it later: it claimed
    for nobody, and what was claimed was taken for sent when its lease had run out.
    """
    slow = Slow()
    slow.go.set()
    grouped = Grouped(slow, at_once=2, largest=1)
    monkeypatch.setattr(threading.Thread, "start", exhausted)
    results = await asyncio.gather(*await asked(grouped, 1, 2), return_exceptions=True)
    assert results == [2, 4]
    with pytest.raises(RuntimeError):
        Grouped(slow, at_once=1, largest=1)
    monkeypatch.undo()
    assert await grouped(3) == 6
    assert sorted(slow.groups) == [[1], [2], [3]]


ENDS = """
import time, django
django.setup()
from parcels.services import announcer
announcer.next_in_turn = lambda queue, most, **_: [7] * most
announcer.prepare = lambda ids: []
announcer.LOOP.ring("announce.postnl", [1])
time.sleep(0.2)
print("ended")
"""


@pytest.mark.integration
def test_no_backlog_keeps_a_worker_that_was_ended_at_once() -> None:
    """SIGQUIT, or a second Ctrl-C: Celery sends no `worker_shutdown`, and nothing is drained."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "shipping.settings", "DEBUG": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ENDS],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("ended\n", 0), done.stderr


async def test_one_that_stops_waiting_leaves_its_group() -> None:
    slow = Slow()
    grouped = Grouped(slow, at_once=1, largest=2)
    await asked(grouped, 0)
    assert await asyncio.to_thread(slow.begun.acquire, timeout=10)
    one, two = await asked(grouped, 1, 2)
    one.cancel()
    slow.go.set()
    assert await two == 4
    assert slow.groups == [[0], [1, 2]]


@pytest.fixture
def carrier(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A carrier that answers when it is let, without a database; `seen` is what was recorded."""
    here = SimpleNamespace(go=threading.Event(), seen=[], in_flight=0, most=0, left=[])
    here.rounds, here.claim, here.claimed = [], threading.Event(), threading.Semaphore(0)
    here.claim.set()

    async def perform(number: int, *_: Any, **__: Any) -> str:
        here.in_flight += 1
        here.most = max(here.most, here.in_flight)
        while not here.go.is_set():  # noqa: ASYNC110 # the test is another thread
            await asyncio.sleep(0.01)
        here.in_flight -= 1
        if number == 13:
            raise OSError("broken")
        return "announced"

    def prepare(ids: Sequence[int]) -> list[Any]:
        here.rounds.append(list(ids))
        here.claimed.release()
        assert here.claim.wait(10)
        if ids[0] == 99:
            raise OSError("the database is away")
        return [job(pk) for pk in ids if pk]

    def job(number: int) -> SimpleNamespace:
        postnl = SimpleNamespace(code="postnl", announce=lambda consignment: consignment)
        row = SimpleNamespace(pk=number, reference=f"r{number}")
        return SimpleNamespace(announcement=row, carrier=postnl, consignment=number, limits=tuple)

    def finish(results: Sequence[Any]) -> list[None]:
        here.seen += [result.job.announcement.pk for result in results]
        return [None] * len(results)

    monkeypatch.setattr(transport_async, "perform", perform)
    monkeypatch.setattr(module, "next_in_turn", lambda *_, **__: [])
    monkeypatch.setattr(module, "prepare", prepare)
    monkeypatch.setattr(module, "finish", finish)
    monkeypatch.setattr(
        protect, "leave", lambda ended: here.left.extend(job.announcement.pk for job, *_ in ended)
    )
    return here


def test_a_thousand_calls_take_no_thread_each(carrier: SimpleNamespace, settings: Any) -> None:
    settings.WORKER_CONCURRENCY = 1000
    before = threading.active_count()
    loop = Loop()
    loop.ring(POSTNL, range(1, 1001))
    while carrier.in_flight < 1000:
        pass
    # The event loop's, and the queue's, which claims.
    assert threading.active_count() - before <= 2 + module.RECORDING
    carrier.go.set()
    loop.drain()
    assert sorted(carrier.seen) == [number for number in range(1, 1001) if number != 13]
    assert carrier.left == [13]  # its permission goes back


def test_a_call_logs_its_own_row_and_not_the_messages(
    carrier: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round takes what waits: not only what the message that rang has named."""
    bound: list[dict[str, Any]] = []

    async def perform(number: int, *_: Any, **__: Any) -> str:
        bound.append(contextvars.get_contextvars())
        return "announced"

    monkeypatch.setattr(transport_async, "perform", perform)
    loop = Loop()
    with contextvars.bound_contextvars(task="parcels.tasks.announce", row=1):
        loop.ring(POSTNL, [1, 2])
    loop.drain()
    assert sorted(bound, key=str) == [{"announcement": 1}, {"announcement": 2}]


def test_more_than_there_is_room_for_waits(carrier: SimpleNamespace, settings: Any) -> None:
    settings.WORKER_CONCURRENCY = 2
    loop = Loop()
    loop.ring(POSTNL, [0])  # nothing to be done: its room is free again
    loop.ring(POSTNL, [1, 2, 3])
    while carrier.in_flight < 2:
        pass
    assert carrier.rounds in ([[0], [1, 2]], [[0, 1], [2]])
    carrier.go.set()
    while len(carrier.seen) < 3:
        pass
    loop.drain()
    assert sorted(carrier.seen) == [1, 2, 3]
    assert carrier.most == 2


def test_what_is_rung_for_meanwhile_is_claimed_together(carrier: SimpleNamespace) -> None:
    carrier.go.set()
    carrier.claim.clear()
    loop = Loop()
    loop.ring(POSTNL, [1])
    assert carrier.claimed.acquire(timeout=10)
    for number in (2, 3, 4):
        loop.ring(POSTNL, [number])
    carrier.claim.set()
    while len(carrier.seen) < 4:
        pass
    assert carrier.rounds == [[1], [2, 3, 4]]


def test_a_worker_that_ends_takes_what_its_messages_brought_and_no_more(
    carrier: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "next_in_turn", lambda queue, most, **_: [7] * most)
    carrier.go.set()
    carrier.claim.clear()
    loop = Loop()
    loop.ring(POSTNL, [1])
    assert carrier.claimed.acquire(timeout=10)
    loop.ring(POSTNL, [2])
    ending = threading.Thread(target=loop.drain)
    ending.start()
    carrier.claim.set()
    ending.join(10)
    assert not ending.is_alive()
    assert carrier.rounds == [[7] * module.LARGEST, [2]]
    assert len(carrier.seen) == module.LARGEST + 1


def test_what_has_its_turn_goes_before_what_a_message_names(
    carrier: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [[5] * module.LARGEST, [6], []]
    monkeypatch.setattr(module, "next_in_turn", lambda *_, **__: turns.pop(0) if turns else [])
    carrier.go.set()
    loop = Loop()
    loop.ring(POSTNL, [1])
    while len(carrier.rounds) < 2:
        pass
    loop.ring(POSTNL, [2])  # whose turns are lost
    while len(carrier.rounds) < 3:
        pass
    assert carrier.rounds == [[5] * module.LARGEST, [6], [2]]  # full: there may be more


LISTENS, STOPS = (module.LARGEST, True), (module.LARGEST, False)


@pytest.mark.parametrize(
    ("turns", "claiming_takes", "asked"),
    [
        ([[1]], 0.0, [*[LISTENS] * 4, STOPS]),
        ([[1], [], [], [2]], 0.0, [*[LISTENS] * 7, STOPS]),  # and again from the next one on
        ([[5] * module.LARGEST], 0.0, [LISTENS, STOPS]),  # a backlog is for others, too
        ([[1]], 2 * module.APART, [LISTENS, STOPS]),  # behind: others may be faster
    ],
)
def test_a_worker_in_calm_listens_for_a_while_and_says_when_it_stops(
    carrier: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    turns: list[list[int]],
    claiming_takes: float,
    asked: list[tuple[int, bool]],
) -> None:
    carrier.go.set()
    now, seen, prepare = [100.0], [], module.prepare

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def slowly(ids: Sequence[int]) -> list[Any]:
        sleep(claiming_takes)
        return prepare(ids)

    def next_in_turn(_queue: str, most: int, *, listens: bool) -> list[int]:
        seen.append((most, listens))
        return turns.pop(0) if turns else []

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    monkeypatch.setattr(module, "prepare", slowly)
    monkeypatch.setattr(module, "next_in_turn", next_in_turn)
    loop = Loop()
    loop.ring(POSTNL, [1])
    while loop._named:
        pass
    assert seen == asked


def test_a_worker_that_ends_listens_no_more(
    carrier: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    loop = Loop()
    end = threading.Thread(target=loop.drain)

    def next_in_turn(_queue: str, most: int, *, listens: bool) -> list[int]:
        seen.append((most, listens))
        if listens and not end.ident:  # it ends while it listens: a later round may be slow
            end.start()
            while not loop._draining:
                pass
        return []

    monkeypatch.setattr(module, "LISTENING", 5.0)
    monkeypatch.setattr(module, "next_in_turn", next_in_turn)
    carrier.go.set()
    loop.ring(POSTNL, [1])
    while not end.ident:
        pass
    end.join()
    assert seen[-1] == (0, False)
    assert sum(listens for _, listens in seen) == 1


def test_a_group_that_cannot_be_claimed_keeps_no_room(
    carrier: SimpleNamespace, settings: Any
) -> None:
    settings.WORKER_CONCURRENCY = 3
    carrier.go.set()
    loop = Loop()
    loop.ring(POSTNL, [99, 1, 2])
    loop.ring(POSTNL, [3])
    while carrier.seen != [3]:
        pass
    loop.drain()


def test_a_queue_that_got_no_thread_is_served_by_the_next_message(
    carrier: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    carrier.go.set()
    loop = Loop()
    loop.ring(POSTNL, [1])

    with monkeypatch.context() as broken:
        broken.setattr(threading.Thread, "start", exhausted)
        with pytest.raises(RuntimeError):
            loop.ring("announce.lantern", [2])
    assert loop._named.pop("announce.lantern", None) is None  # else no later message would begin
    loop.ring("announce.lantern", [3])
    loop.drain()
    assert sorted(carrier.seen) == [1, 3]


def test_a_queues_backlog_keeps_no_other_queue_waiting(carrier: SimpleNamespace) -> None:
    carrier.go.set()
    carrier.claim.clear()
    loop = Loop()
    loop.ring(POSTNL, [1])
    assert carrier.claimed.acquire(timeout=10)
    loop.ring("announce.tortoise", [2])
    assert carrier.claimed.acquire(timeout=10)
    assert carrier.rounds == [[1], [2]]
    carrier.claim.set()
    loop.drain()
