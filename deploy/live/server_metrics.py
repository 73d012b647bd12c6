"""What the stack's own processes have counted, read from their files.

Not asked over HTTP: `/metrics` needs a free worker, and in an outage there may be none.
"""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client.multiprocess import MultiProcessCollector

from deploy.metric_files import readable


@dataclass(frozen=True)
class Counted:
    """Sums over all processes; `tries` by (carrier, outcome), `answers` by status."""

    serving: int = 0
    waiting: int = 0
    answers: Mapping[str, float] = field(default_factory=dict)
    tries: Mapping[tuple[str, str], float] = field(default_factory=dict)


def read_metrics(directory: Path) -> Counted:
    """Add up what lies there; a file that is being made this moment is left out."""
    files = [*directory.glob("counter_*.db"), *directory.glob("gauge_livesum_*.db")]
    try:
        families: Any = MultiProcessCollector.merge(readable(filter(_counts, files)))
    except (OSError, ValueError):
        return Counted()
    samples = [sample for family in families for sample in family.samples]
    busy = {sample.labels["state"]: int(sample.value) for sample in _named(samples, "workers_busy")}
    answers: Counter[str] = Counter()
    for sample in _named(samples, "http_requests_total"):
        answers[sample.labels["status"]] += sample.value
    tries: Counter[tuple[str, str]] = Counter()
    for sample in _named(samples, "announcement_tries_total"):
        tries[sample.labels["carrier"], sample.labels["outcome"]] += sample.value
    return Counted(busy.get("serving", 0), busy.get("waiting", 0), answers, tries)


def _named(samples: list[Any], name: str) -> list[Any]:
    return [sample for sample in samples if sample.name == name]


def _counts(path: Path) -> bool:
    """A killed process could not count its own requests down."""
    if not path.name.startswith("gauge_live"):
        return True
    try:
        os.kill(int(path.stem.rpartition("_")[2]), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
