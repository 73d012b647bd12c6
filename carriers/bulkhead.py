"""Bulkhead: at most N calls in flight to a carrier, over all processes.

A carrier that hangs fills only its own slots. Each slot is a lease in a Redis sorted set: a killed
process doesn't give its slot back, but its lease expires. When Redis is gone each process counts
for itself, so that the limit holds per process; when Redis comes back, or comes back empty, it does
not know the slots taken before for as long as their calls last. Slots that a process could not give
back meanwhile go back with its next question.

An owner may take a slot while it has fewer than SHARE times the free ones (dynamic thresholds, as
in switches whose ports share a buffer: Choudhury and Hahne, 1998). Whatever one owner does, another
one finds a free slot, and nothing need be known of who is there.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any

from carriers.redis_guard import Gone, RedisGuard

LOCAL = "local:"
# Why 4: a single owner gets four fifths of the slots, two that take all they can 44 % each. With 9
# a new owner found a tenth free, and was turned away when it needed more in its next second. With
# fewer than five slots there is no limit.
SHARE = 4


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
        share: int = SHARE,
        prefix: str = "carriers:",
    ) -> None:
        self.limit = limit
        self.lease = lease
        self._share = share
        self._guard = guard
        self._key = f"{prefix}bulkhead:{carrier}"
        self._acquire = guard.script("bulkhead_acquire")
        self._fallback_limit = limit if fallback_limit is None else fallback_limit
        self._lock = threading.Lock()
        self._local: set[str] = set()
        # Slots to give back as soon as Redis is there, until their leases end (`time.monotonic`).
        self._owed: dict[str, float] = {}

    def acquire(self, owner: str = "", *, now: float | None = None) -> str | None:
        """Take a slot and return its token; None where there is none for the owner. Never waits.

        Without an owner (word characters) no share is asked for.
        """
        return self.acquire_all([owner], now=now)[0]

    def acquire_all(self, owners: Sequence[str], *, now: float | None = None) -> list[str | None]:
        """Take a slot for each of them, in their order; see `acquire`."""
        tokens = [f"{owner}.{uuid.uuid4().hex}" for owner in owners]
        owed = self._take_owed()
        moment = "" if now is None else now
        calls: list[list[Any]] = [
            [self.limit, self.lease, token, moment, self._share, owner]
            for token, owner in zip(tokens, owners, strict=True)
        ]
        calls[0] += owed
        try:
            taken = self._acquire([self._key], calls)
        except Gone as gone:
            # Redis may still execute the request.
            self._owe(owed | self._until_its_lease(tokens if gone.asked else []))
            return [self._acquire_local(f"{LOCAL}{token}") for token in tokens]
        return [token if yes else None for token, yes in zip(tokens, taken, strict=True)]

    def _until_its_lease(self, tokens: list[str]) -> dict[str, float]:
        return dict.fromkeys(tokens, time.monotonic() + self.lease)

    def _take_owed(self) -> dict[str, float]:
        if not self._owed:
            return {}
        with self._lock:
            owed, self._owed = self._owed, {}
        return {token: ends for token, ends in owed.items() if ends > time.monotonic()}

    def _owe(self, tokens: dict[str, float]) -> None:
        with self._lock:
            self._owed |= tokens

    def _acquire_local(self, token: str) -> str | None:
        owner = token.rpartition(".")[0]
        with self._lock:
            free = self._fallback_limit - len(self._local)
            own = sum(taken.rpartition(".")[0] == owner for taken in self._local)
            if free <= 0 or (owner != LOCAL and self._share and own >= self._share * free):
                return None
            self._local.add(token)
        return token

    def release(self, *tokens: str) -> None:
        """Give slots back; if Redis is down, with the next request that it answers."""
        shared = [token for token in tokens if not token.startswith(LOCAL)]
        with self._lock:
            self._local.difference_update(tokens)
        if not shared:
            return
        owed = self._take_owed() | self._until_its_lease(shared)
        try:
            self._guard.ask(lambda: self._guard.client.zrem(self._key, *owed))
        except Gone:
            self._owe(owed)

    def in_flight(self) -> int:
        """Count the slots taken, leases that have run out included until the next acquire."""
        try:
            return int(self._guard.ask(lambda: self._guard.client.zcard(self._key)))
        except Gone:
            return len(self._local)
