from dataclasses import replace

import pytest

from loadtests.figures import (
    outage_of,
    phase_figures,
    planned,
    possible_rate,
    rate_while_all_open,
    rounded,
)
from loadtests.metrics import Sample
from loadtests.scenario import load
from loadtests.tests.bench_results import TALK, samples

LABELS, CANARY = TALK.phases[0].streams


def test_the_limit_is_connections_by_the_carriers_seconds():
    assert possible_rate(TALK, LABELS) == 5
    assert possible_rate(load("talk"), load("talk").phases[0].streams[0]) == 20
    assert possible_rate(TALK, CANARY) is None
    capacity = load("capacity")  # an open loop asks for what it asks for
    assert possible_rate(capacity, capacity.phases[0].streams[0]) is None


def test_what_was_planned_is_told_also_where_less_was_sent():
    assert planned(LABELS) == 40
    assert planned(CANARY) == 10


def test_a_stream_that_sent_nothing_is_missing():
    figures = phase_figures(TALK, TALK.phases[0].streams, samples(2.0), 100.0, [])
    assert list(figures) == ["labels"]
    assert figures["labels"]["limit"] == 5
    assert "recovery" not in figures["labels"]


def test_recovery_is_told_where_something_was_broken():
    events = [
        {"at": 4.0, "kind": "fault", "carrier": "colibri"},
        {"at": 6.0, "kind": "heal", "carrier": ""},
    ]
    figures = phase_figures(TALK, TALK.phases[0].streams, samples(2.0), 100.0, events)
    assert "recovery" in figures["labels"]


def test_figures_are_rounded_all_the_way_down():
    assert rounded({"a": [0.123456, {"b": 1}], "c": None}) == {"a": [0.1235, {"b": 1}], "c": None}


@pytest.mark.parametrize(
    ("events", "hours"),
    [
        ([(4.0, "fault"), (6.0, "heal")], (4.0, 6.0)),
        ([(1.0, "reload"), (4.0, "fault"), (5.0, "fault"), (6.0, "heal")], (4.0, 6.0)),
        ([(0.0, "fault"), (6.0, "heal")], (0.0, 6.0)),
        ([(4.0, "fault")], None),
        ([(6.0, "heal")], None),
    ],
)
def test_an_outage_lasts_from_the_first_fault_to_the_first_healing(events, hours):
    assert outage_of([{"at": at, "kind": kind} for at, kind in events]) == hours


def test_recovery_counts_on_the_clock_of_the_samples():
    """The phase began at 100.0: faults at 4 and healed at 6 seconds of it."""
    events = [
        {"at": 4.0, "kind": "fault", "carrier": "x"},
        {"at": 6.0, "kind": "heal", "carrier": ""},
    ]
    found = [
        Sample("labels", 100.0 + at, 100.0 + at, 100.1 + at, 100.1 + at, outcome)
        for at in range(30)
        for outcome in ["http 502" if 4 <= at < 12 else "ok"]
    ]
    figures = phase_figures(TALK, TALK.phases[0].streams, found, 100.0, events)
    assert figures["labels"]["recovery"] == 6.0


def test_a_carrier_that_was_broken_has_no_time_of_its_own():
    def beyond(carrier):
        events = [{"at": 4.0, "kind": "fault", "carrier": carrier}]
        made = phase_figures(TALK, TALK.phases[0].streams, samples(2.25), 100.0, events)
        return "beyond_carrier" in made["labels"]

    assert not beyond(LABELS.carrier)
    assert beyond("another")


def test_seconds_count_from_the_phases_start_whenever_the_stream_begins():
    """So do its events, and the looks at the servers."""
    later = replace(LABELS, begin=3.0)
    figures = phase_figures(TALK, [later], samples(2.0), 97.0, [])
    seconds = figures["labels"]["seconds"]
    assert [second["at"] for second in seconds if second["good"]] == [5, 7, 9, 11]
    assert [second["in_flight"] for second in seconds][:4] == [0, 0, 0, 10]


HOLDS = (
    load("holds", overrides={"connections": 2, "requests": 6, "opening": 2}).phases[0].streams[0]
)


def answered(*moments, outcome="ok"):
    """Requests of two connections from 100.0 on, that were asked for one second before."""
    return [Sample("labels", at - 1, at - 1, at, at, outcome) for at in moments]


def test_the_rate_counts_what_came_while_all_were_open():
    """The window goes from the last opening (2 s after the first) to the last request."""
    found = answered(101.0, 101.9, 102.5, 103.0, 104.0, 105.5)
    # Asked from 100.0 to 104.5: the window is 102.0 to 104.5, with three answers in it.
    assert rate_while_all_open(HOLDS, found) == pytest.approx(3 / 2.5)
    # The last opening itself is before, the last request within.
    assert rate_while_all_open(HOLDS, found + answered(102.0)) == pytest.approx(3 / 2.5)
    assert rate_while_all_open(HOLDS, found + answered(104.5)) == pytest.approx(4 / 2.5)
    failed = answered(102.2, outcome="http 502")
    assert rate_while_all_open(HOLDS, found + failed) == pytest.approx(3 / 2.5)


def test_without_an_opening_or_a_window_there_is_no_such_rate():
    assert rate_while_all_open(LABELS, samples(2.0)) is None
    assert rate_while_all_open(HOLDS, answered(101.0, 102.0)) is None
    assert rate_while_all_open(HOLDS, answered(101.0, 103.0)) is None  # a window of no length
    assert rate_while_all_open(HOLDS, []) is None


def test_what_a_label_takes_beyond_the_carriers_own_seconds():
    figures = phase_figures(TALK, TALK.phases[0].streams, samples(2.25), 100.0, [])
    assert figures["labels"]["beyond_carrier"] == {"p50": 0.25, "p99": 0.25}
    slow = [*samples(2.25), *(one._replace(end=one.end + 1) for one in samples(2.25)[:5])]
    figures = phase_figures(TALK, TALK.phases[0].streams, slow, 100.0, [])
    assert figures["labels"]["beyond_carrier"] == {"p50": 0.25, "p99": 1.25}


def test_each_figure_of_a_stream_is_rounded():
    summary = phase_figures(TALK, [LABELS], samples(2.123456), 100.0, [])["labels"]["summary"]
    assert (summary["latency"]["p50"], summary["latency"]["maximum"]) == (2.1235, 2.1235)


def test_a_window_without_a_good_answer_is_a_rate_of_nought():
    holds = load("holds")
    figures = phase_figures(holds, [HOLDS], answered(101.0, 104.0, outcome="http 502"), 100.0, [])
    assert figures["labels"]["all_open"] == 0
