import pytest

from loadtests.figures import littles_law, phase_figures, planned, possible_rate, rounded
from loadtests.metrics import summarize
from loadtests.scenario import load
from loadtests.tests.bench_results import TALK, samples

LABELS, CANARY = TALK.phases[0].streams


def test_the_limit_is_connections_by_the_carriers_seconds():
    assert possible_rate(TALK, LABELS) == 5
    assert possible_rate(load("talk"), load("talk").phases[0].streams[0]) == 20
    assert possible_rate(TALK, CANARY) is None


def law_of(latency):
    figures = summarize(samples(latency))
    assert figures is not None
    return littles_law(TALK, LABELS, figures)


def test_littles_law_at_a_server_that_costs_nothing():
    law = law_of(2.0)
    assert law["measured"] == pytest.approx(10)
    assert law["predicted"] == pytest.approx(10)


def test_who_waits_for_the_server_is_beyond_the_law():
    law = law_of(8.0)
    assert law["measured"] == pytest.approx(10)
    assert law["predicted"] == pytest.approx(2.5)


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
