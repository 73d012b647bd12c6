"""Limits on what one process does at once: in all, and for each of many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class Rooms:
    """At most `whole` at once, and at most `each` for one key. Nobody waits for room."""

    def __init__(self, *, whole: int, each: int) -> None:
        self._whole = whole
        self._each = each
        self._inside: Counter[int] = Counter()
        self._lock = Lock()

    @contextmanager
    def enter(self, key: int) -> Iterator[bool]:
        """Yield whether there is room, and hold it until the end."""
        with self._lock:
            entered = self._inside.total() < self._whole and self._inside[key] < self._each
            if entered:
                self._inside[key] += 1
        try:
            yield entered
        finally:
            if entered:
                self._leave(key)

    def _leave(self, key: int) -> None:
        with self._lock:
            self._inside[key] -= 1
            if not self._inside[key]:
                del self._inside[key]
