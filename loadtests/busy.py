"""Busy workers, from the files that the app's processes count in (PROMETHEUS_MULTIPROC_DIR).

Not by asking `/metrics`: where all workers wait for a carrier the question would wait, too, and
would take one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from prometheus_client.multiprocess import MultiProcessCollector

from deploy.metric_files import readable


def busy_workers(directory: Path, pids: Iterable[int]) -> dict[str, int]:
    """Return `{"serving": …, "waiting": …}` of these processes; empty where nothing counts."""
    files = readable(path for pid in pids for path in directory.glob(f"gauge_live*_{pid}.db"))
    if not files:
        return {}
    busy: dict[str, int] = {}
    for metric in MultiProcessCollector.merge(files, accumulate=True):
        if metric.name == "workers_busy":
            for sample in metric.samples:
                state = sample.labels["state"]
                busy[state] = busy.get(state, 0) + int(sample.value)
    return busy
