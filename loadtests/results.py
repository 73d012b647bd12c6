"""Raw data of benches, each request beside the figures: written, read, the newest committed."""

import csv
import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.plan import ROOT
from loadtests.aggregate import Group, comparable, groups
from loadtests.metrics import Sample

BENCHMARKS = ROOT / "docs" / "benchmarks"
# Compressed: a look at each server in each second is ten times as large as text.
NAME = "results.json.gz"

SAMPLES_HEAD = "phase,stream,intended,sent_after,first_byte_after,end_after,outcome\n"

Result = Mapping[str, Any]
# A phase's name, its start on the samples' clock, and its samples.
PhaseSamples = tuple[str, float, Sequence[Sample]]


def write(folder: Path, results: Result) -> None:
    """Write a bench's raw data: whole or not at all; the same data make the same file."""
    text = json.dumps(results, separators=(",", ":"))
    draft = folder / f"{NAME}.new"
    draft.write_bytes(gzip.compress(text.encode(), mtime=0))
    draft.replace(folder / NAME)


def write_samples(path: Path, phases: Iterable[PhaseSamples]) -> None:
    """Write them as CSV, compressed: `intended` in seconds of the phase, the others from there."""
    with gzip.open(path, "wt", newline="") as file:
        file.write(SAMPLES_HEAD)
        rows = csv.writer(file, lineterminator="\n")
        for phase, start, samples in phases:
            for sample in samples:
                times = (sample.sent, sample.first_byte)  # to the millisecond
                after = ["" if at is None else f"{at - sample.intended:.3f}" for at in times]
                after.append(f"{sample.end - sample.intended:.4f}")
                planned = f"{sample.intended - start:.4f}"
                rows.writerow([phase, sample.stream, planned, *after, sample.outcome])


def read(path: Path) -> Result:
    """Read raw data, compressed or not."""
    data = path.read_bytes()
    return dict(json.loads(gzip.decompress(data) if path.suffix == ".gz" else data))


@dataclass(frozen=True, slots=True)
class Published:
    """One folder with raw data; `results` in the order in which they began."""

    folder: Path
    results: tuple[Result, ...]

    @property
    def began(self) -> str:
        """Return when its last part began."""
        return str(self.results[-1]["began"])

    def groups(self) -> list[Group]:
        """Return the runs that can be compared, by scenario, variant and strategy."""
        return groups(comparable(self.results))


def newest(root: Path = BENCHMARKS) -> Published | None:
    """Return the committed bench that began last; None where nothing has been measured."""
    found = []
    for folder in sorted(root.iterdir()):
        results = [read(file) for file in sorted(folder.rglob(NAME))]
        results.sort(key=lambda result: str(result["began"]))
        found.append(Published(folder, tuple(results)))
    return max((bench for bench in found if bench.results), key=lambda one: one.began, default=None)
