"""Counts of holds that several processes share through one small file in memory."""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from functools import cache

NAMES = {
    "holds": "Clients held now",
    "held_total": "Clients held since the start",
    "answered_total": "Holds answered by a release",
    "late_total": "Holds answered late: deadline or drain",
    "gone_total": "Clients that hung up while held",
    "over_limit_total": "Answered late at once: too many holds",
    "refused_total": "Tickets refused: forged, expired or used before",
    "app_asked_total": "Batches asked of the app because Redis was in doubt",
    "redis_up": "Processes whose subscription to Redis stands",
    "processes": "Processes that count here",
}
# These describe a living process: a process that takes the slot of a dead one starts at 0.
_NOW = ("holds", "redis_up", "processes")

_CELL = struct.Struct("q")
_PLACE = {name: number * _CELL.size for number, name in enumerate(NAMES)}
_SLOT = _CELL.size * len(NAMES)


def shared_file(slots: int) -> int:
    """Return the descriptor of a nameless file for `slots` processes; children inherit it."""
    with tempfile.TemporaryFile() as file:
        file.truncate(_SLOT * slots)
        return os.dup(file.fileno())


class Counts:
    """One process's counters, and the sum over all processes that share its file.

    Only the event loop's thread writes, and each process only its own slot: no locks.
    """

    def __init__(self, descriptor: int | None = None, slot: int = 0) -> None:
        if descriptor is None:
            # Private: after a fork each process counts for itself.
            self._memory = mmap.mmap(-1, _SLOT, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        else:
            self._memory = mmap.mmap(descriptor, 0)
        self._slot = slot
        for name in _NOW:
            self.set(name, 0)
        self.set("processes", 1)

    def add(self, name: str, amount: int = 1) -> None:
        self.set(name, self.mine(name) + amount)

    def set(self, name: str, value: int) -> None:
        _CELL.pack_into(self._memory, self._slot * _SLOT + _PLACE[name], value)

    def mine(self, name: str) -> int:
        """Return this process's own value."""
        return self._read(name, self._slot)

    def as_dict(self) -> dict[str, int]:
        """Return each counter summed over all processes."""
        slots = range(len(self._memory) // _SLOT)
        return {name: sum(self._read(name, slot) for slot in slots) for name in NAMES}

    def as_prometheus(self) -> str:
        """Return the counters in Prometheus' text format."""
        lines = []
        for name, value in self.as_dict().items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP offload_{name} {NAMES[name]}", f"# TYPE offload_{name} {kind}"]
            lines.append(f"offload_{name} {value}")
        return "\n".join(lines) + "\n"

    def _read(self, name: str, slot: int) -> int:
        value: int = _CELL.unpack_from(self._memory, slot * _SLOT + _PLACE[name])[0]
        return value


@cache
def here() -> Counts:
    """Return this process's counts, so that an app's own metrics page can show them."""
    return Counts()
