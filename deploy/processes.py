"""Processor time, memory and open files of a deployment's processes, each with its workers."""

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from string import digits

import psutil


class Processes:
    """Named process trees. Memory is in MB of the proportional set size: shared pages count once.

    A number at a name's end says which of several: `web1` and `web2` are counted as `web`.
    """

    def __init__(self, leaders: Mapping[str, int]) -> None:
        self._leaders: dict[str, list[int]] = {}
        for name, pid in leaders.items():
            self._leaders.setdefault(name.rstrip(digits), []).append(pid)
        self._before: dict[int, float] = {}
        self._at = time.monotonic()

    def tree(self, name: str) -> list[psutil.Process]:
        """Return the processes of that name and their descendants that live; KeyError if none."""
        return [process for pid in self._leaders[name] for process in tree(pid)]

    def processor(self) -> dict[str, float]:
        """Return each name's cores in use since the last call: 1.0 is one core.

        A process that was not there then counts from the next call on; one in two trees counts for
        the name that comes first.
        """
        now = time.monotonic()
        elapsed, self._at = max(now - self._at, 1e-3), now
        return {
            name: round(sum(map(self._spent, self.tree(name))) / elapsed, 3)
            for name in self._leaders
        }

    def _spent(self, process: psutil.Process) -> float:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            return 0.0
        total = times.user + times.system
        before = self._before.get(process.pid)
        self._before[process.pid] = total
        return max(total - before, 0.0) if before is not None else 0.0

    def memory(self, *, without: str = "") -> dict[str, float]:
        """Return each name's memory in MB."""
        return {
            name: round(sum(map(_megabytes, self.tree(name))), 1)
            for name in self._leaders
            if name != without
        }


def tree(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants; none where it has ended."""
    try:
        leader = psutil.Process(pid)
        return [leader, *leader.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _megabytes(process: psutil.Process) -> float:
    # PSS is Linux'. What is the process's own comes nearest; macOS tells that to root alone.
    with suppress(psutil.Error):
        memory = process.memory_full_info()
        return float(getattr(memory, "pss", memory.uss)) / 1e6
    with suppress(psutil.Error):
        return float(process.memory_info().rss) / 1e6
    return 0.0


@dataclass(frozen=True)
class Usage:
    """How many processes, their memory in bytes, their connections to a SQLite file."""

    processes: int
    memory: int
    database_files: int | None


def usage(roots: Iterable[int], database: Path | None) -> Usage:
    """Add up the roots and all below them, without this process and what it has started itself."""
    found = {one.pid: one for root in roots for one in tree(root)}
    if os.getpid() in found:
        for one in tree(os.getpid()):
            found.pop(one.pid, None)
    memory = sum(map(_megabytes, found.values())) * 1e6
    files = None if database is None else sum(_opened(one, database) for one in found.values())
    return Usage(len(found), int(memory), files)


def _opened(process: psutil.Process, path: Path) -> int:
    """Count open descriptors of the file: SQLite has one for each connection."""
    with suppress(psutil.Error, OSError):  # it has ended, or closed the file meanwhile
        return sum(file.path == str(path) for file in process.open_files())
    return 0
