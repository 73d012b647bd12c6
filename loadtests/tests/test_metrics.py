import math

import pytest

from deploy.simulator import LOOKUP_PATIENCE
from loadtests.metrics import (
    Sample,
    by_stream,
    latency_of,
    per_second,
    percentile,
    recovery_seconds,
    summarize,
    why_invalid,
)


def figures_of(samples):
    return summarize(samples)


def distribution(values):
    return latency_of(values)


def sample(intended, took, *, sent=None, first=None, outcome="ok", stream="s"):
    sent = intended if sent is None else sent
    first = intended + took if first is None else first
    return Sample(stream, intended, sent, first, intended + took, outcome)


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, 1), (0.01, 1), (0.07, 7), (0.5, 50), (0.95, 95), (0.99, 99), (1, 100)],
)
def test_a_percentile_is_a_value_that_was_seen(share, expected):
    assert percentile(range(1, 101), share) == expected


def test_the_percentile_of_one_value_is_that_value():
    assert percentile([7.0], 0.99) == 7.0


def test_no_values_have_no_percentile():
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)
    assert distribution([]) is None


def test_each_figure_of_a_distribution():
    latency = distribution([value / 100 for value in range(1, 101)])
    assert (latency.minimum, latency.maximum) == (0.01, 1.0)
    assert latency.mean == pytest.approx(0.505)
    assert (latency.p50, latency.p90, latency.p95, latency.p99) == (0.5, 0.9, 0.95, 0.99)


def test_each_figure_of_a_stream():
    samples = [
        sample(0, 1, first=0.5),
        sample(1, 2, sent=1.2, first=2.0),
        sample(2, 1, outcome="http 502"),
        sample(3, 2, outcome="time-out"),
    ]
    figures = figures_of(samples)
    assert (figures.asked, figures.good) == (4, 2)
    assert figures.errors == {"http 502": 1, "time-out": 1}
    assert figures.seconds == 5
    assert figures.throughput == pytest.approx(4 / 5)
    assert figures.goodput == pytest.approx(2 / 5)
    assert figures.error_share == 0.5
    assert (figures.latency.p50, figures.latency.maximum) == (2, 2)  # of 1, 2 and 2
    assert figures.late_sends == 1


def test_the_latency_of_failures_flatters_nobody():
    refused_at_once = [sample(0, 0.001, outcome="refused") for _ in range(99)]
    figures = figures_of([*refused_at_once, sample(0, 10)])
    assert figures.latency.p50 == 10
    assert figures.error_share == pytest.approx(0.99)


def test_who_gives_up_has_waited_and_is_in_the_percentiles():
    """Else a server that answers every tenth client looks as quick as one that answers all."""
    answered = [sample(0, 1) for _ in range(90)]
    gave_up = [sample(0, 60, outcome="time-out") for _ in range(5)]
    cut_off = [sample(0, 70, outcome="unfinished") for _ in range(5)]
    latency = figures_of([*answered, *gave_up, *cut_off]).latency
    assert (latency.p90, latency.p95, latency.p99) == (1, 60, 70)


def test_who_was_never_answered_is_no_throughput():
    figures = figures_of([sample(0, 10), sample(0, 10, outcome="unfinished")])
    assert figures.throughput == pytest.approx(0.1)
    assert figures.error_share == 0.5


def test_nothing_asked_has_no_figures():
    assert figures_of([]) is None


def stalled_server():
    """One request each 10 ms for 2 s; the server answers in 1 ms, but not from 0.5 s to 1.5 s.

    A client with one connection can send the requests of that second only when it is over.
    """
    samples = []
    for number in range(200):
        intended = number / 100
        stuck = 0.5 <= intended < 1.5
        sent = 1.5 if stuck else intended
        samples.append(Sample("s", intended, sent, sent + 0.001, sent + 0.001, "ok"))
    return samples


def test_a_stalled_server_shows_in_the_percentiles():
    """Gil Tene's example: half of all requests fell into the stall."""
    latency = figures_of(stalled_server()).latency
    assert latency.p50 == pytest.approx(0.001)
    assert latency.p90 == pytest.approx(0.801)
    assert latency.p99 == pytest.approx(0.981)
    assert latency.maximum == pytest.approx(1.001)


def test_counted_from_the_send_the_stall_would_be_gone():
    """The negative control: what is measured by who omits what he could not send."""
    omitting = distribution(item.end - item.sent for item in stalled_server())
    assert omitting.maximum == pytest.approx(0.001)


def why_not(samples, lookups=(), busy=0.0):
    return why_invalid([("talk", 0.0, samples)], lookups, busy)


def test_a_generator_that_was_late_makes_the_run_invalid():
    late = [sample(at, 1, sent=at + 0.06) for at in range(2)]
    on_time = [sample(at, 1, sent=at + 0.04) for at in range(98)]
    [reason] = why_not([*late, *on_time])
    assert "2.0%" in reason
    assert not why_not(on_time)


def test_each_stream_of_each_phase_is_judged_by_its_own_late_sends():
    """A stall of two seconds is 0.3 % of the run's sends, and a figure that it publishes."""
    on_time = [sample(at, 1, stream=name) for name in ("labels", "canary") for at in range(3000)]
    canary = [sample(at, 1, sent=at + 2 * (at < 20), stream="canary") for at in range(300)]
    phases = [("4 wait", 0.0, on_time), ("500 wait", 0.0, [*on_time[:3000], *canary])]
    [reason] = why_invalid(phases, [], 0.0)
    assert "6.7% of the sends of canary (500 wait)" in reason


@pytest.mark.parametrize(("late", "reasons"), [(10, 0), (11, 1)])
def test_one_late_send_in_a_hundred_is_not_too_many(late, reasons):
    sends = [sample(at, 1, sent=at + (0.06 if at < late else 0.0)) for at in range(1000)]
    assert len(why_not(sends)) == reasons


@pytest.mark.parametrize(("late", "reasons"), [(1, 0), (2, 1)])
def test_one_late_send_of_a_short_stream_is_no_stall(late, reasons):
    assert (
        len(why_not([sample(at, 1, sent=at + 0.06 * (at < late)) for at in range(20)])) == reasons
    )


@pytest.mark.parametrize(("wait", "late"), [(0.05, 0), (0.051, 1)])
def test_a_send_is_late_from_fifty_milliseconds_on(wait, late):
    two = [Sample("s", 0.0, wait, 1.0, 1.0, "ok")] * 2
    assert figures_of(two).late_sends == 2 * late
    assert len(why_not(two)) == late


@pytest.mark.parametrize(("lookup", "reasons"), [(0.25, 0), (0.251, 1)])
def test_a_simulator_is_slow_from_a_quarter_of_a_second_on(lookup, reasons):
    assert len(why_not([sample(0, 1)], [lookup] * 3)) == reasons


@pytest.mark.parametrize(("busy", "reasons"), [(0.8, 0), (0.81, 1)])
def test_a_generator_without_time_left_makes_the_run_invalid(busy, reasons):
    """In a closed loop no send is late: the next one is due when the last answer was read."""
    assert len(why_not([sample(0, 1)], busy=busy)) == reasons


def test_a_send_that_never_came_is_no_late_one():
    at_nought = Sample("s", -1.0, 0.0, 1.0, 1.0, "ok")
    assert figures_of([at_nought]).late_sends == 1
    never = Sample("s", 0.0, None, None, 9.0, "unfinished")
    assert figures_of([never]).late_sends == 0
    assert why_not([never, sample(0, 1)]) == []
    assert why_not([never]) == ["nothing was sent"]


def test_a_slow_simulator_makes_the_run_invalid():
    ok = [sample(0, 1)]
    assert not why_not(ok, [0.01] * 95 + [0.5] * 5)
    [reason] = why_not(ok, [0.01] * 90 + [0.5] * 10)
    assert "simulator" in reason
    # Silent for seventy seconds of 220: seven looks, and each for its ten seconds.
    assert why_not(ok, [0.01] * 150 + [10.0] * 7)


def test_a_run_that_sent_nothing_is_invalid():
    assert why_not([])


def test_streams_are_told_apart():
    streams = by_stream([sample(0, 1), sample(0, 1, stream="t"), sample(1, 1)])
    assert {name: len(samples) for name, samples in streams.items()} == {"s": 2, "t": 1}


def test_each_second_has_its_answers_and_errors():
    samples = [sample(100.0, 0.5), sample(100.2, 2.0), sample(101.0, 0.1, outcome="reset")]
    seconds = per_second(samples, start=100.0)
    assert [second.at for second in seconds] == [0, 1, 2]
    assert [second.good for second in seconds] == [1, 0, 1]
    assert [second.errors for second in seconds] == [{}, {"reset": 1}, {}]
    assert seconds[0].p50 == pytest.approx(0.5)
    assert seconds[1].p50 is None


def test_in_flight_counts_parts_of_seconds():
    samples = [sample(0.25, 2.5), sample(1.5, 0.25)]
    levels = [second.in_flight for second in per_second(samples, start=0)]
    assert levels == pytest.approx([0.75, 1.25, 0.75])


def test_where_nobody_waits_nought_are_in_flight():
    """Parts of a second don't add up to it in floating point: what is left is no less than none."""
    samples = [sample(number / 10, 0.5) for number in range(5)] + [sample(5, 0.1)]
    levels = [second.in_flight for second in per_second(samples, start=0)]
    assert [str(level) for level in levels[1:5]] == ["0.0"] * 4


def test_in_flight_obeys_littles_law():
    samples = [sample(number / 7, 0.3 + number % 5) for number in range(70)]
    seconds = per_second(samples, start=0)
    area = math.fsum(second.in_flight for second in seconds)
    assert area == pytest.approx(math.fsum(item.latency for item in samples))


def outage(back_at, *, took=0.01):
    """10 a second for 60 s; from 20 on all fail, until `back_at`; then each takes `took`."""
    return [
        sample(
            at + part / 10,
            took if at >= back_at else 0.01,
            outcome="http 502" if 20 <= at < back_at else "ok",
        )
        for at in range(60)
        for part in range(10)
    ]


@pytest.mark.parametrize(("back_at", "expected"), [(40, 0), (43, 3), (48, 9), (99, None)])
def test_recovery_counts_from_the_end_of_the_outage(back_at, expected):
    assert recovery_seconds(outage(back_at), begin=20, end=40) == expected


def test_answers_that_take_far_longer_than_before_are_no_recovery():
    assert recovery_seconds(outage(43, took=30), begin=20, end=40) is None
    assert recovery_seconds(outage(43, took=0.9), begin=20, end=40) == 3


@pytest.mark.parametrize(("took", "expected"), [(4.99, 3), (5.01, None)])
def test_five_seconds_are_as_before_where_answers_were_quick(took, expected):
    assert recovery_seconds(outage(43, took=took), begin=20, end=40) == expected


@pytest.mark.parametrize(("took", "expected"), [(7.99, 3), (8.01, None)])
def test_twice_the_slowest_twentieth_is_as_before(took, expected):
    slow = [one._replace(end=one.intended + 4.0) for one in outage(99) if one.intended < 20]
    slow[0] = slow[0]._replace(end=slow[0].intended + 30.0)  # one in two hundred
    later = [one for one in outage(43, took=took) if one.intended >= 20]
    assert recovery_seconds(slow + later, begin=20, end=40) == expected


@pytest.mark.parametrize(("lost", "expected"), [(1, 3), (2, 6)])
def test_one_failure_among_thirty_is_as_before_and_two_are_not(lost, expected):
    """95 % of the share that was good before, in windows of three seconds: ten a second."""
    later = outage(43)
    first = [number for number, one in enumerate(later) if 43 <= one.intended < 46][:lost]
    for number in first:
        later[number] = later[number]._replace(outcome="http 502")
    assert recovery_seconds(later, begin=20, end=40) == expected


def test_as_before_is_no_better_than_it_was_before():
    """A tenth failed before: a tenth may fail afterwards."""
    failing = [
        one._replace(outcome="http 502") if number % 10 == 0 else one
        for number, one in enumerate(outage(43))
    ]
    assert recovery_seconds(failing, begin=20, end=40) == 3


def test_a_request_is_of_before_by_when_it_was_due():
    """A tenth was due before and failed afterwards: a tenth may fail in the end, too."""
    found = [
        one._replace(outcome="http 502", end=21.0) if 18 <= one.intended < 20 else one
        for one in outage(40)
    ]
    found = [
        one._replace(outcome="http 502") if one.intended >= 40 and number % 10 == 0 else one
        for number, one in enumerate(found)
    ]
    assert recovery_seconds(found, begin=20, end=40) == 0


def test_what_was_due_when_the_carrier_came_back_counts():
    at_once = [sample(40, 0.01, outcome="http 502") for _ in range(2)]
    assert recovery_seconds([*outage(40), *at_once], begin=20, end=40) == 3


def test_a_relapse_is_no_recovery():
    relapse = [sample(50 + part / 10, 1, outcome="reset") for part in range(10)]
    assert recovery_seconds(outage(43) + relapse, begin=20, end=40) == 12


def test_a_flushed_backlog_is_no_recovery():
    """All requests of the outage answered at once when it ends, the next ones not at all."""
    flushed = [
        item._replace(outcome="ok", end=41.0) if 20 <= item.intended < 40 else item
        for item in outage(60)
    ]
    assert recovery_seconds(flushed, begin=20, end=40) is None


def test_without_a_before_there_is_no_recovery():
    assert recovery_seconds(outage(40), begin=0, end=40) is None


def test_a_run_at_a_simulator_that_answers_nothing_is_invalid():
    on_time = [sample(0.0, 1.0)]
    assert why_not(on_time, [LOOKUP_PATIENCE] * 3)
