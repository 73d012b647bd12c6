"""The files in which a server's processes count (PROMETHEUS_MULTIPROC_DIR), for who reads them."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil


def forget_dead_processes(directory: Path) -> None:
    """Remove the gauges of killed processes, which couldn't decrease them."""
    for path in directory.glob("gauge_live*_*.db"):
        if not psutil.pid_exists(int(path.stem.rpartition("_")[2])):
            path.unlink(missing_ok=True)


def readable(paths: Iterable[Path]) -> list[str]:
    """Return those that can be read now.

    A file that is being made this moment is empty, and `prometheus_client` fails on it with
    struct.error; one that was just removed is nobody's any more.
    """
    found = []
    for path in paths:
        with suppress(FileNotFoundError):
            if path.stat().st_size:
                found.append(str(path))
    return found
