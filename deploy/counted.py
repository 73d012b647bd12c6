"""What a stack's processes have counted, read from their files (PROMETHEUS_MULTIPROC_DIR).

    python -m deploy.counted container=sweeper

prints it for Prometheus, with these labels added: worker and sweeper have no address to scrape.

Not asked over HTTP: `/metrics` needs a free worker, and in an outage there may be none.
"""

import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

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
    gauges = _of_living(directory.glob("gauge_livesum_*.db"), pids)
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


class Exposed(Collector):
    """All families of a folder, with more labels; nothing is removed there."""

    def __init__(self, directory: Path, labels: Mapping[str, str]) -> None:
        self._directory, self._labels = directory, labels

    def collect(self) -> Iterable[Metric]:
        """Yield the families."""
        found = set(self._directory.glob("*.db"))
        live = {path for path in found if path.name.startswith("gauge_live")}
        families: Any = MultiProcessCollector.merge(
            readable(sorted((found - live) | _of_living(live)))
        )
        for family in families:
            family.samples = [
                sample._replace(labels=sample.labels | self._labels) for sample in family.samples
            ]
            yield family


def _of_living(paths: Iterable[Path], pids: Collection[int] | None = None) -> set[Path]:
    """Return the files of `pids`, or of all processes that live.

    Not of the dead: a killed process could not count its own requests down.
    """
    counts = psutil.pid_exists if pids is None else pids.__contains__
    return {path for path in paths if counts(int(path.stem.rpartition("_")[2]))}


def main(arguments: Iterable[str]) -> None:
    """Print the folder's metrics; each argument is a label, `name=value`."""
    run_dir = Path(os.environ.get("RUN_DIR", ".run"))
    directory = Path(os.environ.get("PROMETHEUS_MULTIPROC_DIR") or run_dir / "metrics")
    labels = dict(argument.split("=", 1) for argument in arguments)
    sys.stdout.write(generate_latest(Exposed(directory, labels)).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
