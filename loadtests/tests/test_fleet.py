import multiprocessing
import os
import signal
import threading
import time

import pytest

from loadtests import ceiling, fleet
from loadtests.arrivals import Closed
from loadtests.calls import make
from loadtests.generator import Plan, Progress, Stream
from loadtests.metrics import Sample, summarize
from loadtests.tests.shop_server import Shop, running

pytestmark = pytest.mark.integration


def planned(port, closed):
    call = make("label", host="127.0.0.1", login="public:secret")
    return lambda start: Plan((Stream("s", "127.0.0.1", port, call, closed),), start, cap=60)


def test_two_processes_send_one_plan_between_them():
    told: list[Progress] = []
    with running(Shop(seconds=0.02, least=6)) as shop:  # one may start late
        _, report, interrupted = fleet.send(
            planned(shop.port, Closed(6, 60)), generators=2, tell=told.append
        )
    assert (shop.creates, shop.most) == (60, 6)
    assert len(report.samples) == 60
    assert told[-1].good == 60
    assert not interrupted
    assert 0 < report.busy < 2


@pytest.fixture
def interruptible():
    """A shell's background jobs ignore Ctrl-C, and so would we."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_keeps_what_was_measured():
    with running(Shop(seconds=0.05)) as shop:
        interrupter = threading.Thread(target=interrupt_when, args=(shop,), daemon=True)
        interrupter.start()
        _, report, interrupted = fleet.send(planned(shop.port, Closed(2, 100_000)))
        interrupter.join()
    assert interrupted
    assert sum(sample.ok for sample in report.samples) >= 20
    assert {sample.outcome for sample in report.samples} <= {"ok", "unfinished"}


def test_a_generator_that_is_told_to_end_hands_over_what_it_has():
    """`timeout` and CI end the whole group: that is an interrupt, and no generator that died."""

    def end_generators(shop):
        while shop.creates < 25:
            time.sleep(0.05)
        for child in multiprocessing.active_children():
            child.terminate()

    with running(Shop(seconds=0.05)) as shop:
        ender = threading.Thread(target=end_generators, args=(shop,), daemon=True)
        ender.start()
        _, report, _ = fleet.send(planned(shop.port, Closed(2, 100_000)))
        ender.join()
    assert sum(sample.ok for sample in report.samples) >= 20


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_generators_start_is_an_interrupt(monkeypatch):
    """They have measured nothing; what earlier phases did must be kept, and no other run begin."""
    wait = fleet.wait

    def interrupted_at_once(*_, **__):
        monkeypatch.setattr(fleet, "wait", wait)
        raise KeyboardInterrupt

    monkeypatch.setattr(fleet, "wait", interrupted_at_once)
    _, report, interrupted = fleet.send(planned(0, Closed(2, 100)), generators=2)
    assert interrupted
    assert report.samples == []
    monkeypatch.setattr(fleet, "wait", interrupted_at_once)
    (stream,) = planned(0, Closed(2, 100))(0.0).streams
    with pytest.raises(KeyboardInterrupt):
        fleet.drive(stream, cap=1)


def interrupt_when(shop):
    while shop.creates < 25:
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)


def test_a_generator_that_dies_is_an_error_not_a_zero():
    with pytest.raises(fleet.GeneratorError, match="before its report"):
        fleet.send(planned(0, "no arrivals"))


def test_the_ceiling_is_measured():
    measured = ceiling.measure(requests=500, seconds=0.5)
    assert measured["requests_per_second"] > 0
    assert 0 <= measured["paced_late_share"] <= 1


def test_a_ceiling_that_no_answer_showed_is_an_error(monkeypatch):
    gave_up = Sample("ceiling", 0.0, 0.0, None, 60.0, "time-out")
    monkeypatch.setattr(ceiling, "_run", lambda *_: summarize([gave_up]))
    with pytest.raises(fleet.GeneratorError, match="time-out"):
        ceiling.measure()
