"""Processor time and memory of a deployment's processes, each with its workers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from string import digits

import psutil


class Processes:
    """Named process trees. Memory is the proportional set size: shared pages count once.

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
        return [process for pid in self._leaders[name] for process in _tree(pid)]

    def processor(self) -> dict[str, float]:
        """Return each name's cores in use since the last call: 1.0 is one core."""
        now = time.monotonic()
        elapsed, self._at = max(now - self._at, 1e-3), now
        return {name: round(seconds / elapsed, 3) for name, seconds in self.spent().items()}

    def spent(self) -> dict[str, float]:
        """Return each name's processor seconds since the last call of this or `processor`.

        A process that was not there then counts from the next call on; one in two trees counts for
        the name that comes first.
        """
        return {
            name: sum(self._spent(process) for process in self.tree(name)) for name in self._leaders
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

    def counts(self) -> dict[str, int]:
        """Return how many processes each name has."""
        return {name: len(self.tree(name)) for name in self._leaders}


class Machine:
    """The whole machine's processor time: what is not ours disturbs."""

    def __init__(self) -> None:
        self._busy = self._total()
        self._at = time.monotonic()

    def others(self, ours: float) -> float:
        """Return the cores that others used since the last call, `ours` being ours in it."""
        now, busy = time.monotonic(), self._total()
        elapsed = max(now - self._at, 1e-3)
        used = (busy - self._busy) / elapsed
        self._at, self._busy = now, busy
        return round(max(used - ours, 0.0), 2)

    @staticmethod
    def _total() -> float:
        times = psutil.cpu_times()
        waiting = times.idle + getattr(times, "iowait", 0.0)
        return float(sum(times) - waiting - getattr(times, "guest", 0.0))


def _tree(pid: int) -> list[psutil.Process]:
    try:
        leader = psutil.Process(pid)
        return [leader, *leader.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _megabytes(process: psutil.Process) -> float:
    try:
        memory = process.memory_full_info()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0.0
    # PSS is Linux'; elsewhere what is the process's own comes nearest.
    return float(getattr(memory, "pss", memory.uss)) / 1e6
