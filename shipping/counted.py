"""Print what this container's processes have counted: worker and sweeper have no address to scrape.

    python -m shipping.counted container=sweeper_1

It adds these labels, by which two containers' series differ. Without Django: a process that has the
app's counters makes files of its own, and they would stay.
"""

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from deploy.metric_files import forget_dead_processes, readable

_LABEL = re.compile(r"([a-zA-Z_]\w*)=(.*)", re.ASCII)


def main(arguments: Iterable[str]) -> None:
    """Write the text for node_exporter's textfile collector."""
    labels: dict[str, str] = {}
    for argument in arguments:
        if not (label := _LABEL.fullmatch(argument)):
            raise SystemExit(f"{argument!r} is no label: name=value")
        labels[label[1]] = label[2]
    own = Path(os.environ.get("RUN_DIR", ".run"), "metrics")
    directory = Path(os.environ.get("PROMETHEUS_MULTIPROC_DIR") or own)
    forget_dead_processes(directory)
    families: Any = list(MultiProcessCollector.merge(readable(directory.glob("*.db"))))
    for family in families:
        family.samples = [each._replace(labels=each.labels | labels) for each in family.samples]
    shown: Any = SimpleNamespace(collect=lambda: families)
    sys.stdout.write(generate_latest(shown).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
