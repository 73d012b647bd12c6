from types import SimpleNamespace

import pytest

from deploy import strategy as strategies
from loadtests import __main__ as command
from loadtests import estimate, scenario, suite

TALK = scenario.load("talk", quick=True)
OUTAGE = scenario.load("outage", quick=True)


@pytest.mark.parametrize(
    ("found", "ideal"),
    [
        (TALK, 5),  # 1,000 requests over 200 connections at one second each
        (OUTAGE, 45.5),  # the last request is sent after 45 s, its carrier takes half a second
        (scenario.load("capacity"), 410),  # 200 s of arrivals, 210 s of the last one's carrier
    ],
)
def test_the_ideal_is_the_arrivals_and_the_carrier(found, ideal):
    least, _ = estimate.span(found)
    assert least - estimate.AROUND - estimate.REST_SECONDS - estimate.LEAD == pytest.approx(
        ideal, abs=0.5
    )


def test_at_worst_each_phase_is_cut_off():
    least, most = estimate.span(TALK)
    assert most - least == pytest.approx(TALK.phases[0].cap - 5 + TALK.settle)


@pytest.mark.parametrize(("form", "minutes"), [("quick", 11), ("full", 450)])
def test_a_suite_with_all_strategies_fits_into_its_time(form, minutes):
    parts = suite.plan(form, strategies.names(), "")
    least = sum(part.estimate()[1] for part in parts)
    # The rest is for the strategies that need all of their time: after it nothing begins.
    assert least < minutes * 60 < suite.SECONDS[form]


def test_the_estimate_is_said_before_the_first_run(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(command, "available", lambda wanted: ("asgi-hold",))

    def interrupted(*_):
        said = capsys.readouterr().err
        assert said.startswith("2 runs: about ")
        assert "left out" in said
        return {}, command.INTERRUPTED

    monkeypatch.setattr(command, "_bench", interrupted)
    monkeypatch.setattr(command, "write_report", lambda *_: SimpleNamespace())
    assert command.main(["suite", "quick", "--out", str(tmp_path)]) == command.INTERRUPTED
