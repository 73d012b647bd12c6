"""Counts of holds that several processes share in a little memory."""

import mmap
import struct
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
# Their places in `Counts.own`, in the same order.
HOLDS, HELD, ANSWERED, LATE, GONE, OVER_LIMIT, REFUSED, APP_ASKED, REDIS_UP, PROCESSES = range(
    len(NAMES)
)
# These describe a living process: a process that takes the slot of a dead one starts at 0.
_NOW = (HOLDS, REDIS_UP, PROCESSES)

_CELL = struct.calcsize("q")


def shared_memory(slots: int) -> mmap.mmap:
    """Return the memory of `slots` processes, which a fork shares."""
    return mmap.mmap(-1, _CELL * len(NAMES) * slots)


class Counts:
    """One process's counters, and the sum over all processes that share its memory.

    `own[HOLDS]` is this process's, to read and to change. Only the event loop's thread writes, and
    each process only its own slot: no locks.
    """

    def __init__(self, memory: mmap.mmap | None = None, slot: int = 0) -> None:
        # Without shared memory each process counts for itself, also after a fork.
        self._all = memoryview(memory or bytearray(_CELL * len(NAMES))).cast("q")
        self.own = self._all[slot * len(NAMES) : (slot + 1) * len(NAMES)]
        for place in _NOW:
            self.own[place] = 0
        self.own[PROCESSES] = 1

    def as_dict(self) -> dict[str, int]:
        """Return each counter summed over all processes."""
        step = len(NAMES)
        return {name: sum(self._all[place::step]) for place, name in enumerate(NAMES)}

    def as_prometheus(self) -> str:
        """Return the counters in Prometheus' text format."""
        lines = []
        for name, value in self.as_dict().items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP offload_{name} {NAMES[name]}", f"# TYPE offload_{name} {kind}"]
            lines.append(f"offload_{name} {value}")
        return "\n".join(lines) + "\n"


@cache
def here() -> Counts:
    """Return this process's counts, so that an app's own metrics page can show them."""
    return Counts()
