import json

import pytest

from loadtests import __main__ as command
from loadtests import myths
from loadtests.metrics import Sample, by_stream
from loadtests.samples import read_samples


def test_each_way_has_a_name_of_its_own_and_a_view_of_the_site():
    site = (myths.SITE / "slow_site.py").read_text()
    assert len({way.name for way in myths.WAYS}) == len(myths.WAYS)
    assert all(f'path("{way.view}"' in site for way in myths.WAYS)


def test_who_still_waits_at_the_end_has_not_failed():
    made = [("ok", 2.0), ("time-out", 5.0), ("unfinished", 8.0), ("unfinished", 8.0)]
    samples = [Sample("labels", 0.0, 0.0, None, end, outcome) for outcome, end in made]
    figures = myths._figures(samples)
    assert figures["still_waiting"] == 2
    assert figures["errors"] == {"time-out": 1}
    assert figures["error_share"] == 0.5
    assert myths._figures(samples[2:])["error_share"] is None


@pytest.fixture
def measured(monkeypatch, tmp_path):
    def go(outcome):
        monkeypatch.setattr(myths, "measure", outcome)
        code = command.main(["myths", "--out", str(tmp_path), "--seconds", "3"])
        return code, json.loads((tmp_path / "results.json").read_text())

    return go


@pytest.mark.parametrize(("reasons", "code"), [([], 0), (["the generator was late"], 1)])
def test_the_raw_data_say_how_they_came_to_be(measured, reasons, code):
    made = {"way": "any", "validity": {"reasons": reasons}}
    sample = Sample("labels", 1.0, 1.0, None, 3.0, "ok")
    got, found = measured(lambda way, seconds: (made, ("", 1.0, [sample])))
    assert got == code
    assert len(found["runs"]) == len(myths.WAYS)
    assert found["command"] == "python -m loadtests myths --seconds 3"
    assert {"commit", "packages"} <= set(found["machine"])
    assert found["complete"]


def test_ctrl_c_keeps_what_was_measured(measured):
    def once(way, seconds):
        if way is not myths.WAYS[0]:
            raise KeyboardInterrupt
        return {"way": way.name, "validity": {"reasons": []}}, ("", 0.0, [])

    code, found = measured(once)
    assert (code, len(found["runs"]), found["complete"]) == (130, 1, False)


@pytest.mark.integration
def test_five_workers_that_wait_serve_five_clients():
    way = myths.Way("sync", myths.WAYS[0].server, "sync", clients=20)
    found, (_, _, samples) = myths.measure(way, 3.0)
    labels = found["streams"]["labels"]
    assert labels["good"] == 5  # one round of two seconds
    assert labels["still_waiting"] >= 10
    assert found["memory"]
    assert len(samples) > 20


def test_the_committed_figures_are_those_of_the_committed_samples():
    found = json.loads((myths.FOLDER / "results.json").read_text())
    assert [run["way"] for run in found["runs"]] == [way.name for way in myths.WAYS]
    for way, run in zip(myths.WAYS, found["runs"], strict=True):
        [samples] = read_samples(myths.FOLDER / "samples" / f"{way.file}.csv.gz").values()
        for name, mine in by_stream(samples).items():
            again = myths._figures(mine)
            assert again["good"] == run["streams"][name]["good"]
            assert again["goodput"] == pytest.approx(run["streams"][name]["goodput"], rel=0.001)
