"""What clients have seen of late: a sliding window of latencies, and those still waiting."""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence

# Seconds: long enough for a p99 that stands still, short enough that an outage shows at once.
SPAN = 15.0
# A request open for this long is a slow one already: it counts with its age so far, or the
# percentiles would praise a server that answers nobody.
OVERDUE = 2.0


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return the nearest rank of an ascending list; None where there is nothing."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


class Window:
    """Requests of one kind at one target; times in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._done: deque[tuple[float, float]] = deque()
        self._open: dict[int, float] = {}
        self._next = 0

    def begin(self) -> int:
        """Note a start; return a number for `end`."""
        self._next += 1
        self._open[self._next] = self._clock()
        return self._next

    def end(self, number: int, *, counts: bool = True) -> None:
        """Note an end. What brought no answer does not count."""
        now, began = self._clock(), self._open.pop(number)
        if counts:
            self._done.append((now, now - began))

    @property
    def open(self) -> int:
        return len(self._open)

    def latencies(self) -> list[float]:
        """Return what counts now, ascending."""
        now = self._clock()
        while self._done and self._done[0][0] < now - SPAN:
            self._done.popleft()
        waiting = [now - start for start in self._open.values() if now - start > OVERDUE]
        return sorted([took for _, took in self._done] + waiting)
