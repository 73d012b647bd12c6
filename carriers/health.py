"""A carrier's recent health, for `Retry-After` and GET /carriers."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from carriers.redis_guard import Gone, RedisGuard

# Why 200: enough for a p95 with ten calls beyond it, few enough to read all.
WINDOW = 200
# Why a day: yesterday's durations say nothing about today's.
EXPIRY = 86_400
# Why 1 and 60: a client should neither poll too often nor miss the answer for long.
SHORTEST_RETRY, LONGEST_RETRY = 1, 60


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Durations in seconds over the recent calls, None where there were none; share 0..1."""

    count: int
    p50: float | None
    p95: float | None
    error_share: float

    def retry_after(self, default: float) -> int:
        """Return whole seconds after which asking again makes sense: the recent median."""
        seconds = math.ceil(default if self.p50 is None else self.p50)
        return max(SHORTEST_RETRY, min(seconds, LONGEST_RETRY))


def snapshot(samples: Iterable[tuple[float, bool]]) -> Snapshot:
    """Sum up (duration, ok) pairs."""
    pairs = list(samples)
    if not pairs:
        return Snapshot(0, None, None, 0.0)
    durations = sorted(duration for duration, _ in pairs)
    errors = sum(not ok for _, ok in pairs)
    p50, p95 = (
        durations[math.ceil(share * len(pairs)) - 1] for share in (0.5, 0.95)
    )  # nearest rank
    return Snapshot(len(pairs), p50, p95, errors / len(pairs))


class Health:
    """The recent calls of one carrier, over all processes; by process when Redis is gone."""

    def __init__(self, guard: RedisGuard, carrier: str, *, prefix: str = "carriers:") -> None:
        self._guard = guard
        self._key = f"{prefix}health:{carrier}"
        self._local: deque[tuple[float, bool]] = deque(maxlen=WINDOW)

    def record(self, *calls: tuple[float, bool]) -> None:
        """Note calls, each as its duration in seconds and whether the carrier answered well."""
        self._local.extend(calls)
        pipeline = self._guard.client.pipeline(transaction=False)
        pipeline.lpush(self._key, *(f"{duration:.4f}:{int(ok)}" for duration, ok in calls))
        pipeline.ltrim(self._key, 0, WINDOW - 1)
        pipeline.expire(self._key, EXPIRY)
        with suppress(Gone):  # it is kept in this process
            self._guard.ask(pipeline.execute)

    def read(self) -> Snapshot:
        """Sum up the recent calls."""
        try:
            raw: list[Any] = self._guard.ask(
                lambda: self._guard.client.lrange(self._key, 0, WINDOW - 1)
            )
        except Gone:
            return snapshot(list(self._local))
        samples = (each.decode() if isinstance(each, bytes) else each for each in raw)
        pairs = (sample.split(":") for sample in samples)
        return snapshot((float(duration), ok == "1") for duration, ok in pairs)
