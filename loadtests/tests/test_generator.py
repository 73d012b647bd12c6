import asyncio
import errno
import socket
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import uvloop

from loadtests.arrivals import Burst, Closed, Constant
from loadtests.calls import make
from loadtests.generator import Generator, Plan, Progress, Stream
from loadtests.metrics import per_second, summarize, why_invalid
from loadtests.tests.shop_server import BARE, Shop, running
from loadtests.wire import Wire

pytestmark = pytest.mark.integration


def figures_of(samples):
    return summarize(samples)


def stream(port, arrivals, *, call="label", begin=0.0, time_out=10.0):
    asked = make(call, host="127.0.0.1", login="public:secret")
    return Stream(call, "127.0.0.1", port, asked, arrivals, begin, time_out)


def drive(*streams, cap=30, share=0, of=1):
    plan = Plan(streams, time.monotonic() + 0.1, cap)
    return plan, asyncio.run(Generator(plan, share=share, of=of).run())


def test_a_closed_loop_has_so_many_in_flight_and_sends_all():
    with running(Shop(seconds=0.1)) as shop:
        _, report = drive(stream(shop.port, Closed(connections=4, requests=20)))
    assert (shop.creates, shop.most) == (20, 4)
    figures = figures_of(report.samples)
    assert (figures.asked, figures.good) == (20, 20)
    assert figures.latency.minimum >= 0.1


def test_connections_open_one_after_another():
    with running(Shop(seconds=2)) as shop:
        plan, report = drive(stream(shop.port, Closed(connections=4, requests=4, opening=0.4)))
    intended = sorted(round(sample.intended - plan.start, 3) for sample in report.samples)
    assert intended == [0.0, 0.1, 0.2, 0.3]
    assert all(sample.sent >= sample.intended for sample in report.samples)


def test_an_open_loop_sends_also_when_nothing_comes_back():
    with running(Shop(seconds=60)) as shop:
        plan, report = drive(stream(shop.port, Constant(rate=20, seconds=1)), cap=1.5)
    assert shop.creates == 20
    assert [sample.outcome for sample in report.samples] == ["unfinished"] * 20
    intended = sorted(round(sample.intended - plan.start, 3) for sample in report.samples)
    assert intended == [number / 20 for number in range(20)]


@pytest.mark.parametrize("arrivals", [Constant(rate=200, seconds=0.5), Closed(50, 50, opening=0.5)])
def test_nothing_is_sent_too_soon_by_a_loop_of_whole_milliseconds(arrivals):
    with (
        running(Shop()) as shop,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        plan = Plan((stream(shop.port, arrivals),), time.monotonic() + 0.1, 30)
        report = runner.run(Generator(plan).run())
    assert len(report.samples) >= 50
    early = [each for each in report.samples if each.sent is None or each.sent < each.intended]
    assert early == []


def test_all_that_is_in_flight_shows_in_the_seconds():
    with running(Shop(seconds=60)) as shop:
        plan, report = drive(stream(shop.port, Burst(size=7)), cap=2)
    assert per_second(report.samples, plan.start)[1].in_flight == pytest.approx(7, abs=0.2)


@pytest.mark.parametrize(
    ("shop", "outcome"),
    [
        (Shop(answer=BARE), "no label (1001)"),
        (Shop(answer=BARE, status=202), "http 202"),
        (Shop(answer={}, status=503), "http 503"),
        (Shop(answer=[1]), "unreadable answer"),
        (Shop(seconds=60), "time-out"),
    ],
)
def test_failures_are_told_apart(shop, outcome):
    with running(shop):
        _, report = drive(stream(shop.port, Burst(size=1), time_out=0.5))
    assert [sample.outcome for sample in report.samples] == [outcome]


def test_a_server_that_is_not_there_refuses():
    with running(Shop()) as shop:
        port = shop.port
    _, report = drive(stream(port, Burst(size=3)))
    assert {sample.outcome for sample in report.samples} == {"refused"}


def test_a_connection_that_is_cut_is_a_reset():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def cut():
            for _ in range(2):
                server.accept()[0].close()

        thread = threading.Thread(target=cut, daemon=True)
        thread.start()
        _, report = drive(stream(server.getsockname()[1], Burst(size=2)))
        thread.join(10)
    assert [sample.outcome for sample in report.samples] == ["reset"] * 2
    assert [sample.first_byte for sample in report.samples] == [None] * 2


@pytest.mark.parametrize("missing", [errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL])
def test_what_a_generator_could_not_send_makes_the_run_invalid(monkeypatch, missing):
    async def connect(host, port):
        raise OSError(missing, "")

    monkeypatch.setattr(Wire, "connect", connect)
    _, report = drive(stream(1, Burst(size=2)))
    assert [sample.outcome for sample in report.samples] == ["not sent"] * 2
    [reason] = why_invalid([("talk", 0.0, report.samples)], [], 0.0)
    assert reason == "the generator had no descriptor or port for 2 requests"


@pytest.mark.parametrize("arrivals", [Constant(rate=10, seconds=0.2), Closed(2, 2, opening=0.2)])
def test_a_stream_begins_when_it_is_to(arrivals):
    with running(Shop(seconds=0.5)) as shop:  # so that no connection sends twice
        plan, report = drive(stream(shop.port, arrivals, begin=0.3))
    intended = sorted(round(sample.intended - plan.start, 3) for sample in report.samples)
    assert intended == [0.3, 0.4]
    assert all(sample.sent >= sample.intended for sample in report.samples)


def test_the_first_byte_comes_between_the_send_and_the_end():
    with running(Shop(seconds=0.2)) as shop:
        _, report = drive(stream(shop.port, Burst(size=1)))
    [one] = report.samples
    assert one.intended <= one.sent < one.sent + 0.2 <= one.first_byte <= one.end


def test_progress_tells_what_became_of_all():
    told = []
    with running(Shop(answer={}, status=503)) as bad, running(Shop(seconds=60)) as slow:
        streams = (stream(bad.port, Burst(2)), stream(slow.port, Burst(3), call="async"))
        generator = Generator(Plan(streams, time.monotonic(), 1.0))
        asyncio.run(generator.run(lambda progress: told.append(replace(progress))))
    assert any(progress.in_flight == 3 for progress in told)
    assert told[-1] == Progress(sent=5, good=0, failed=5, in_flight=0)


def test_what_went_well_is_no_failure():
    told = []
    with running(Shop()) as shop:
        generator = Generator(Plan((stream(shop.port, Burst(2)),), time.monotonic(), 30))
        asyncio.run(generator.run(lambda progress: told.append(replace(progress))))
    assert told[-1] == Progress(sent=2, good=2, failed=0, in_flight=0)


def test_a_generator_that_is_stopped_ends_long_before_the_cap():
    async def stopped(generator):
        asyncio.get_running_loop().call_later(0.3, generator.stop)
        return await generator.run()

    with running(Shop(seconds=60)) as shop:
        plan = Plan((stream(shop.port, Burst(2), time_out=60),), time.monotonic(), 30)
        report = asyncio.run(stopped(Generator(plan)))
    assert [sample.outcome for sample in report.samples] == ["unfinished"] * 2
    assert max(sample.end for sample in report.samples) < plan.start + 15


def test_a_connection_is_used_again_and_no_more_are_opened_than_wait():
    with running(Shop(seconds=0.02)) as shop:
        plan = Plan((stream(shop.port, Closed(3, 30)),), time.monotonic(), 30)
        generator = Generator(plan)
        asyncio.run(generator.run())
    [idle] = generator._idle.values()
    assert (shop.creates, len(idle)) == (30, 3)


def test_a_connection_that_the_server_closes_is_not_used_again():
    with running(Shop(keep=False)) as shop:
        _, report = drive(stream(shop.port, Closed(connections=2, requests=10)))
    assert [sample.outcome for sample in report.samples] == ["ok"] * 10


def test_what_was_idle_for_too_long_is_hung_up(monkeypatch):
    closed = set()
    hang_up = Wire.close

    def close(wire):
        closed.add(wire)
        hang_up(wire)

    monkeypatch.setattr("loadtests.wire.IDLE_SECONDS", 0.0)
    monkeypatch.setattr(Wire, "close", close)
    with running(Shop()) as shop:
        drive(stream(shop.port, Closed(connections=1, requests=5)))
    assert (shop.creates, len(closed)) == (5, 5)


def test_a_client_that_gives_up_hangs_up():
    with running(Shop(seconds=60)) as shop:
        drive(stream(shop.port, Closed(connections=1, requests=3), time_out=0.3))
    assert (shop.creates, shop.most) == (3, 1)


def test_a_connection_is_to_one_server():
    with running(Shop()) as first, running(Shop()) as second:
        drive(
            stream(first.port, Closed(connections=1, requests=2)),
            stream(second.port, Closed(connections=1, requests=2), begin=0.5),
        )
    assert (first.creates, second.creates) == (2, 2)


def test_an_asynchronous_create_needs_no_label():
    with running(Shop(answer=BARE)) as shop:
        _, report = drive(stream(shop.port, Burst(size=1), call="async"))
    assert [sample.outcome for sample in report.samples] == ["ok"]


def test_shares_together_are_the_whole():
    with running(Shop()) as shop:
        for share in (0, 1, 2):
            drive(
                stream(shop.port, Constant(rate=100, seconds=0.1)),
                stream(shop.port, Closed(connections=3, requests=11)),
                share=share,
                of=3,
            )
    assert shop.creates == 10 + 11


def test_a_share_opens_its_own_connections_alone():
    with running(Shop(seconds=0.05)) as shop:
        drive(stream(shop.port, Closed(connections=3, requests=12)), share=1, of=3)
    assert (shop.creates, shop.most) == (4, 1)


def test_a_loop_that_was_blocked_says_that_it_sent_late():
    async def blocked(generator):
        asyncio.get_running_loop().call_later(0.3, time.sleep, 0.4)
        return await generator.run()

    with running(Shop()) as shop:
        streams = (stream(shop.port, Constant(rate=50, seconds=1), call="read"),)
        generator = Generator(Plan(streams, time.monotonic() + 0.1, 30))
        report = asyncio.run(blocked(generator))
    figures = figures_of(report.samples)
    assert figures.late_sends >= 10
    assert max(each.sent - each.intended for each in report.samples if each.sent) >= 0.25
    assert figures.latency.maximum >= 0.25  # and the wait is in the latency


def test_in_a_closed_loop_the_next_request_is_due_when_the_last_answer_came():
    with running(Shop(seconds=0.1)) as shop:
        plan, report = drive(stream(shop.port, Closed(connections=1, requests=4)))
    samples = sorted(report.samples, key=lambda sample: sample.intended)
    assert [sample.intended for sample in samples[1:]] == [sample.end for sample in samples[:-1]]
    assert samples[0].intended == plan.start


def test_a_client_that_gives_up_has_waited_its_time_out_and_no_longer():
    with running(Shop(seconds=60)) as shop:
        _, report = drive(stream(shop.port, Burst(size=3), time_out=0.4))
    assert [sample.outcome for sample in report.samples] == ["time-out"] * 3
    assert all(0.4 <= sample.latency < 1.5 for sample in report.samples)
    figures = figures_of(report.samples)
    assert figures.good == 0
    assert figures.latency.minimum >= 0.4  # and none of it is left out


def test_what_is_cut_off_counts_as_unfinished_and_not_as_throughput():
    with running(Shop(seconds=60)) as shop:
        plan, report = drive(stream(shop.port, Closed(connections=3, requests=30)), cap=0.6)
    # The cap counts from the start, whatever came before it.
    assert all(0.6 <= sample.end - plan.start < 3 for sample in report.samples)
    assert [sample.outcome for sample in report.samples] == ["unfinished"] * 3
    assert figures_of(report.samples).throughput == 0


def test_its_own_processor_time_is_in_the_report():
    with running(Shop()) as shop:
        _, report = drive(stream(shop.port, Constant(rate=20, seconds=0.5)))
    assert 0 < report.busy < 0.8  # it waits most of the time


def test_the_wait_for_the_start_is_no_idle_time_of_its_own(monkeypatch):
    spent = iter([0.0, 0.001])
    clock = SimpleNamespace(monotonic=time.monotonic, process_time=lambda: next(spent))
    monkeypatch.setattr("loadtests.generator.time", clock)
    with running(Shop()) as shop:
        plan, report = drive(stream(shop.port, Burst(1)))
    assert time.monotonic() - 0.001 / report.busy >= plan.start
