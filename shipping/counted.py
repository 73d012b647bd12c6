"""Print what this container's processes have counted: worker and sweeper have no address to scrape.

    python -m shipping.counted container=sweeper_1

It adds these labels, by which two containers' series differ. Without Django: a process that has the
app's counters makes files of its own, and they would stay.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
from prometheus_client import generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from deploy.metric_files import readable

_LABEL = re.compile(r"([a-zA-Z_]\w*)=(.*)", re.ASCII)
# A process that was killed could not count its own requests down.
_LIVE = re.compile(r"gauge_live\w+_(\d+)\.db")


def main(arguments: Iterable[str]) -> None:
    """Write the text for node_exporter's textfile collector."""
    labels: dict[str, str] = {}
    for argument in arguments:
        if not (label := _LABEL.fullmatch(argument)):
            raise SystemExit(f"{argument!r} is no label: name=value")
        labels[label[1]] = label[2]
    own = Path(os.environ.get("RUN_DIR", ".run"), "metrics")
    found = Path(os.environ.get("PROMETHEUS_MULTIPROC_DIR") or own).glob("*.db")
    files = [
        path
        for path in found
        if not (live := _LIVE.fullmatch(path.name)) or psutil.pid_exists(int(live[1]))
    ]
    families: Any = list(MultiProcessCollector.merge(readable(files)))
    for family in families:
        family.samples = [each._replace(labels=each.labels | labels) for each in family.samples]
    shown: Any = SimpleNamespace(collect=lambda: families)
    sys.stdout.write(generate_latest(shown).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
