"""Every request of a run, beside its figures: what the figures can be made of again."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Sequence
from pathlib import Path

from loadtests.metrics import Sample

HEAD = ("phase", "stream", "intended", "sent", "first_byte", "end", "outcome")

# A phase's name, its start on the samples' clock, and its samples.
PhaseSamples = tuple[str, float, Sequence[Sample]]


def write_samples(path: Path, phases: Iterable[PhaseSamples]) -> None:
    """Write them as CSV, compressed; times in seconds from their phase's start."""
    with gzip.open(path, "wt", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(HEAD)
        for phase, start, samples in phases:
            for sample in samples:
                times = (sample.intended, sample.sent, sample.first_byte, sample.end)
                columns = ["" if at is None else f"{at - start:.4f}" for at in times]
                rows.writerow([phase, sample.stream, *columns, sample.outcome])


def read_samples(path: Path) -> dict[str, list[Sample]]:
    """Return the samples by phase, their times from the phase's start."""
    phases: dict[str, list[Sample]] = {}
    with gzip.open(path, "rt", newline="") as file:
        for row in csv.DictReader(file):
            intended, sent, first, end = (
                float(row[name]) if row[name] else None
                for name in ("intended", "sent", "first_byte", "end")
            )
            sample = Sample(row["stream"], intended or 0.0, sent, first, end or 0.0, row["outcome"])
            phases.setdefault(row["phase"], []).append(sample)
    return phases
