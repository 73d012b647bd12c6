"""Limits on what one process does at once: in all, and for each of many."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class KeyedLimiter:
    """At most `total` at once, and at most `per_key[n]` for an n-th key. Never waits.

    One of the first keys has at most as many as are free: however many of them there are, another
    one finds room.
    """

    def __init__(self, *, total: int, per_key: tuple[int, ...]) -> None:
        self._limits = (total, *per_key)
        self._inside: Counter[tuple[int, int]] = Counter()
        self._lock = Lock()

    def has_room(self, *keys: int) -> bool:
        """Tell whether one more could enter, by these keys alone where some are left out."""
        places = enumerate((0, *keys))  # the first is common to all
        pairs = zip(places, self._limits, strict=False)
        free = self._limits[0] - self._inside[0, 0]
        leaves_some = not keys or self._inside[1, keys[0]] < free
        return leaves_some and all(self._inside[place] < limit for place, limit in pairs)

    @contextmanager
    def enter(self, *keys: int) -> Iterator[bool]:
        """Yield whether there is room for all the keys, and hold it until the end."""
        places = list(enumerate((0, *keys)))
        with self._lock:
            if entered := self.has_room(*keys):
                self._inside.update(places)
        try:
            yield entered
        finally:
            if entered:
                with self._lock:
                    self._inside.subtract(places)
                    self._inside += Counter()  # drops what is zero
