"""The pieces of the figures, each against values that are known."""

import asyncio
import re
import time

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from carriers.simulator import faults as _registers  # noqa: F401 # each registers
from carriers.simulator.fault import make
from carriers.simulator.params import Params
from deploy.live.app import KINDS, LONGEST, PAGE, parameters_of
from deploy.live.canary import PATH, Canary
from deploy.live.collector import Collector, Rate
from deploy.live.target import Target
from deploy.live.window import OVERDUE, SPAN, Window, percentile
from deploy.ports import free_port


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def window(clock):
    return Window(clock)


def test_nearest_rank():
    assert percentile(list(range(1, 101)), 0.95) == 95
    assert percentile([7], 0.99) == 7
    assert percentile([], 0.5) is None


def test_a_window_forgets(window, clock):
    number = window.begin()
    clock.now = 1.0
    window.end(number)
    assert window.latencies() == [1.0]
    clock.now = 1.0 + SPAN + 0.1
    assert window.latencies() == []


def test_what_brought_no_answer_is_over_and_does_not_count(window, clock):
    number = window.begin()
    clock.now = 0.001
    window.end(number, counts=False)
    assert (window.open, window.latencies()) == (0, [])


def test_who_waits_counts_with_its_age_once_it_is_overdue(window, clock):
    window.begin()
    clock.now = OVERDUE - 0.1
    assert window.latencies() == []
    clock.now = 9.0
    assert window.latencies() == [9.0]


def test_a_rate_is_over_the_last_seconds():
    rate = Rate(span=5)
    assert rate.add(0, 0) == 0
    values = [rate.add(second, 10 * second) for second in range(1, 20)]
    assert values[-1] == pytest.approx(10)
    falling = [rate.add(second, 190) for second in range(20, 30)]
    assert falling[-1] == 0


def test_a_counter_that_starts_anew_is_no_negative_rate():
    rate = Rate()
    rate.add(0, 100)
    assert rate.add(1, 3) == 0
    assert rate.add(2, 5) == 2


def test_each_button_is_a_fault_of_the_simulators_that_ends():
    """By the simulator's own name and parameters, which it checks here itself."""
    buttons = re.search(r"const KINDS = \{(.*?)\}", (PAGE / "controls.js").read_text())
    assert buttons
    assert re.findall(r"(\w+):", buttons[1]) == [*KINDS]
    for kind in KINDS:
        asked = parameters_of(kind, 30)
        assert asked["for"] == 30
        assert make(kind, Params(asked)).kind == kind


@pytest.mark.parametrize(("kind", "seconds"), [("magic", 30), ("hang", 0), ("hang", LONGEST + 1)])
def test_what_is_no_outage(kind, seconds):
    with pytest.raises(ValueError, match="outage"):
        parameters_of(kind, seconds)


async def test_a_look_that_fails_is_said_once_and_made_again(caplog, monkeypatch):
    collector = Collector()
    troubles = [RuntimeError("one"), RuntimeError("one"), None, RuntimeError("one")]

    async def look(more):
        if trouble := troubles.pop(0):
            raise trouble

    monkeypatch.setattr(collector, "_look", look)
    for _ in range(4):
        await collector._try_to_look(dict)
    assert len(caplog.records) == 2
    assert "RuntimeError: one" in caplog.text


async def test_news_come_after_a_failed_look():
    async with Collector() as collector:
        answers = iter([ZeroDivisionError(), {"beside": 1}])

        def also():
            answer = next(answers, {"beside": 2})
            if isinstance(answer, Exception):
                raise answer
            return answer

        running = asyncio.create_task(collector.run(also))
        figures = await asyncio.wait_for(collector.news(), 10)
        running.cancel()
    assert figures["beside"] == 1


@pytest.mark.integration
async def test_a_server_that_is_gone_is_no_quick_answer(tmp_path):
    """A refused connection was the fastest reading of all, and green."""

    statuses = [200, 503, 200]

    async def answer(request):
        return web.Response(status=statuses.pop(0))

    app = web.Application()
    app.router.add_get(PATH, answer)
    server = TestServer(app, port=free_port())
    keys = tmp_path / "accounts.env"
    keys.write_text("PUBLIC_KEY=p\nSECRET_KEY=s\n")
    target = Target({"PORT": str(server.port), "ACCOUNTS_FILE": str(keys)}, list)
    async with ClientSession() as session:
        canary = Canary(session, target)
        await canary._sing()
        assert canary.read() == 0.0  # not up yet
        await server.start_server()
        await canary._sing()
        assert canary.read() == canary._last > 0.0
        await canary._sing()
        assert canary.read() is None
        await canary._sing()
        assert canary.read() is not None
        await server.close()
        await canary._sing()
    assert canary.read() is None
    canary._dead, canary._waiting = False, {time.monotonic() - 9.0}
    assert (canary.read() or 0.0) >= 9.0  # before it has an answer
