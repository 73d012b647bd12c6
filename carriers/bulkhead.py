"""Bulkhead: at most N calls in flight to a carrier, over all processes.

A carrier that hangs fills its own slots and nobody else's. Each slot is a lease in a Redis sorted
set: a killed process gives nothing back, its lease runs out instead. When Redis is gone each
process counts for itself, so that the limit holds per process; when Redis comes back, or comes back
empty, it does not know the slots taken before for as long as their calls last.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator
from typing import Any

from carriers.errors import BulkheadFull
from carriers.redis_guard import Gone, RedisGuard

LOCAL = "local:"


class Bulkhead:
    """The slots of one carrier. `lease` in seconds: longer than any call's total deadline."""

    def __init__(
        self,
        guard: RedisGuard,
        carrier: str,
        *,
        limit: int,
        lease: float,
        fallback_limit: int | None = None,
        prefix: str = "carriers:",
    ) -> None:
        self.limit = limit
        self.lease = lease
        self._guard = guard
        self._key = f"{prefix}bulkhead:{carrier}"
        self._acquire = guard.script("bulkhead_acquire")
        self._fallback_limit = limit if fallback_limit is None else fallback_limit
        self._lock = threading.Lock()
        self._local: set[str] = set()

    def acquire(self, now: float | None = None) -> str | None:
        """Take a slot and return its token; None where all are taken. Never waits."""
        token = uuid.uuid4().hex
        arguments: list[Any] = [self.limit, self.lease, token, "" if now is None else now]
        try:
            return token if self._acquire([self._key], arguments) else None
        except Gone:
            return self._acquire_local(LOCAL + token)

    def _acquire_local(self, token: str) -> str | None:
        with self._lock:
            if len(self._local) >= self._fallback_limit:
                return None
            self._local.add(token)
        return token

    def release(self, token: str) -> None:
        """Give a slot back; where Redis is gone its lease does."""
        if token.startswith(LOCAL):
            with self._lock:
                self._local.discard(token)
            return
        with contextlib.suppress(Gone):
            self._guard.ask(lambda: self._guard.client.zrem(self._key, token))

    @contextlib.contextmanager
    def slot(self) -> Iterator[None]:
        """Hold a slot over a block; raise BulkheadFull where there is none."""
        token = self.acquire()
        if token is None:
            raise BulkheadFull
        try:
            yield
        finally:
            self.release(token)

    def in_flight(self) -> int:
        """Count the slots taken, leases that have run out included until the next acquire."""
        try:
            return int(self._guard.ask(lambda: self._guard.client.zcard(self._key)))
        except Gone:
            return len(self._local)
