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
