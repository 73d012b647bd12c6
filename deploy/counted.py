"""What a stack's processes have counted, read from their files (PROMETHEUS_MULTIPROC_DIR).

Not asked over HTTP: `/metrics` needs a free worker, and in an outage there may be none.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from prometheus_client.multiprocess import MultiProcessCollector

from deploy.metric_files import readable


@dataclass(frozen=True)
class Counted:
    """Sums over processes: busy workers by `serving` and `waiting`, tries by (carrier, outcome).

    `busy` is empty where nothing counts: missing, not 0.
    """

    busy: Mapping[str, int] = field(default_factory=dict)
    tries: Mapping[tuple[str, str], float] = field(default_factory=dict)


def read_counted(directory: Path, pids: Collection[int] | None = None) -> Counted:
    """Add up what lies there; busy workers are those of `pids`, or of all processes that live.

    A file that is being made this moment is left out.
    """
    # Not the dead: a killed process could not count its own requests down.
    counts = psutil.pid_exists if pids is None else pids.__contains__
    gauges = [
        path
        for path in directory.glob("gauge_livesum_*.db")
        if counts(int(path.stem.rpartition("_")[2]))
    ]
    files = readable([*directory.glob("counter_*.db"), *gauges])
    try:
        families: Any = MultiProcessCollector.merge(files)
    except (OSError, ValueError):
        return Counted()
    busy: Counter[str] = Counter()
    tries: Counter[tuple[str, str]] = Counter()
    for sample in (sample for family in families for sample in family.samples):
        match sample.name:
            case "workers_busy":
                busy[sample.labels["state"]] += int(sample.value)
            case "announcement_tries_total":
                tries[sample.labels["carrier"], sample.labels["outcome"]] += sample.value
    return Counted(busy, tries)
