"""The committed raw data against each other: figures are those of the samples."""

import csv
import gzip

import pytest

from loadtests.aggregate import SHOWN
from loadtests.figures import outage_of
from loadtests.metrics import RECOVERY_WINDOW, Sample, by_stream, recovery_seconds, summarize
from loadtests.results import BENCHMARKS, NAME, read


def read_samples(path):
    """Return the samples by phase, their times from the phase's start."""
    phases: dict[str, list[Sample]] = {}
    with gzip.open(path, "rt", newline="") as file:
        for row in csv.DictReader(file):
            intended = float(row["intended"])
            sent, first, end = (
                intended + float(row[name]) if row[name] else None
                for name in ("sent_after", "first_byte_after", "end_after")
            )
            sample = Sample(row["stream"], intended, sent, first, end or 0.0, row["outcome"])
            phases.setdefault(row["phase"], []).append(sample)
    return phases


def committed(*scenarios):
    for results in sorted(BENCHMARKS.rglob(NAME)):
        for run in read(results)["runs"]:
            name = f"{run['scenario']}_{run['strategy']}_{run['repeat']}.csv.gz"
            file = results.parent / "samples" / name
            if run["scenario"] in scenarios and run["status"] in SHOWN:
                yield pytest.param(run, file, id=name)


@pytest.mark.parametrize(
    ("run", "file"), [*committed("talk", "outage", "reload", "crowd", "growth", "capacity")]
)
def test_each_summary_is_that_of_the_samples(run, file):
    samples = read_samples(file)
    for phase in run["phases"]:
        found = by_stream(samples[phase["name"]])
        assert set(found) == set(phase["streams"])  # one without samples is compared with nothing
        for name, mine in found.items():
            kept, again = phase["streams"][name]["summary"], summarize(mine)
            assert again is not None
            assert (kept["asked"], kept["good"], kept["errors"]) == (
                again.asked,
                again.good,
                again.errors,
            )
            assert kept["goodput"] == pytest.approx(again.goodput, rel=1e-3, abs=1e-4)
            assert (kept["latency"] is None) == (again.latency is None)
            for share in ("p50", "p99", "maximum") if again.latency else ():
                assert kept["latency"][share] == pytest.approx(
                    getattr(again.latency, share), abs=2e-4
                )


@pytest.mark.parametrize(("run", "file"), [*committed("outage")])
def test_the_recovery_is_that_of_the_samples(run, file):
    """Times are rounded in the samples: a request at a window's edge may fall on its other side."""
    [phase] = run["phases"]
    hours = outage_of(phase["events"])
    if hours is None:
        pytest.skip("cut off before the outage's end")
    begin, end = hours
    for name, mine in by_stream(read_samples(file)["outage"]).items():
        again = recovery_seconds(mine, begin=begin, end=end)
        kept = phase["streams"][name]["recovery"]
        assert (again is None) == (kept is None)
        assert (again or 0.0) == pytest.approx(kept or 0.0, abs=RECOVERY_WINDOW)
