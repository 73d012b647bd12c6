"""The committed raw data against each other: figures are those of the samples."""

import pytest

from loadtests.aggregate import SHOWN
from loadtests.figures import outage_of
from loadtests.metrics import RECOVERY_WINDOW, by_stream, recovery_seconds
from loadtests.results import BENCHMARKS, NAME, read
from loadtests.samples import read_samples


def outages():
    for results in sorted(BENCHMARKS.rglob(NAME)):
        for run in read(results)["runs"]:
            name = f"outage_{run['strategy']}_{run['repeat']}.csv.gz"
            file = results.parent / "samples" / name
            if run["scenario"] == "outage" and run["status"] in SHOWN and file.exists():
                yield pytest.param(run, file, id=name)


@pytest.mark.parametrize(("run", "file"), [*outages()])
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
