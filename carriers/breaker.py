"""A carrier's circuit breaker, shared over Redis. Its rules, and why: `carriers.breaker_rules`."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any

from carriers import breaker_rules as rules
from carriers.backoff import OWN_GUARDS, PERMANENT
from carriers.breaker_rules import Admission, BreakerConfig, BreakerState, Mode
from carriers.outcomes import LookupResult, NotSent, Outcome, Throttled, Unknown, VoidResult
from carriers.redis_guard import Gone, RedisGuard

# The carrier was not called, or the answer says nothing about its health.
SILENT = OWN_GUARDS | PERMANENT | {"no_lookup", "throttled"}


def is_failure(outcome: Outcome | LookupResult | VoidResult) -> bool | None:
    """Tell whether an outcome counts against the carrier; None: it says nothing, don't record it.

    Time-outs and all other unknowns count, and what could not be sent; refusals do not, nor what
    one account's credentials cause.
    """
    if isinstance(outcome, Throttled) or getattr(outcome, "reason", "") in SILENT:
        return None
    return isinstance(outcome, NotSent | Unknown) and outcome.reason != "credentials"


def throttled_for(outcome: Outcome | LookupResult | VoidResult) -> float | None:
    """Return the seconds for which a 429 asks for no calls, 0 if it names none; else None."""
    if isinstance(outcome, Throttled):
        return outcome.retry_after or 0.0
    return 0.0 if isinstance(outcome, Unknown) and outcome.reason == "throttled" else None


class CircuitBreaker:
    """The breaker of one carrier, shared over Redis. `now` is for tests: else Redis' own clock."""

    def __init__(
        self,
        guard: RedisGuard,
        carrier: str,
        *,
        config: BreakerConfig | None = None,
        prefix: str = "carriers:",
    ) -> None:
        self.config = config or BreakerConfig()
        self._guard = guard
        key = f"{prefix}breaker:{carrier}"
        self._keys = [key, f"{key}:outcomes"]
        self._admit = guard.script("breaker_admit")
        self._record = guard.script("breaker_record")
        self._record_probe = guard.script("breaker_probe")
        self._throttle = guard.script("breaker_throttle")
        self._lock = threading.Lock()
        self._local = BreakerState()

    def admit(self, now: float | None = None) -> Admission:
        """Ask before a call."""
        return self.admit_all(1, now)[0]

    def admit_all(self, count: int, now: float | None = None) -> list[Admission]:
        """Ask before each of so many calls."""
        tokens = [uuid.uuid4().hex for _ in range(count)]
        config = self.config
        rest = [config.open_for, config.ramp_for, config.ramp_from, config.ramp_to]
        calls = [[_clock(now), token, *rest, config.trial_every] for token in tokens]
        try:
            answers = self._admit(self._keys, calls)
        except Gone:
            return [self._admit_locally(token) for token in tokens]
        return [
            Admission(bool(allowed), float(retry_after), _text(probe))
            for allowed, retry_after, probe in answers
        ]

    def _admit_locally(self, token: str) -> Admission:
        with self._lock:
            admission, self._local = rules.admit(self._local, time.monotonic(), token, self.config)
        return admission

    def record(
        self, *, failed: bool, lasted: float = 0.0, key: str = "", now: float | None = None
    ) -> None:
        """Report the outcome of a call that lasted so many seconds, see `is_failure`.

        Further failures of the same key are not counted; the empty one is no key.
        """
        self.record_all([(failed, lasted, key)], now)

    def record_all(
        self, outcomes: Sequence[tuple[bool, float, str]], now: float | None = None
    ) -> None:
        """Report outcomes, each as (failed, lasted, key); see `record`."""
        config = self.config
        limits = [config.window, config.horizon, config.min_calls, config.share]
        try:
            self._record(
                self._keys,
                [[_clock(now), int(failed), *limits, *rest] for failed, *rest in outcomes],
            )
        except Gone:
            with self._lock:
                for failed, lasted, key in outcomes:
                    self._local = rules.record(
                        self._local, time.monotonic(), failed, config, lasted, key=key
                    )

    def throttle(self, seconds: float, *, now: float | None = None) -> None:
        """Report a 429 that asks for no calls for so many seconds, see `throttled_for`."""
        try:
            self._throttle(self._keys, [[_clock(now), seconds, self.config.trial_every]])
        except Gone:
            with self._lock:
                self._local = rules.throttle(self._local, time.monotonic(), seconds, self.config)

    def record_probe(self, token: str, *, alive: bool, now: float | None = None) -> None:
        """Report the result of the probe that `admit` asked for."""
        try:
            self._record_probe(self._keys, [[_clock(now), token, int(alive)]])
        except Gone:
            with self._lock:
                self._local = rules.record_probe(self._local, time.monotonic(), token, alive)

    def pace(self) -> float | None:
        """Return the calls per second that it admits now: None without limit, 0 if open."""
        try:
            kept, (seconds, micro) = self._guard.ask(self._ask_pace)
        except Gone:
            return rules.pace(self._local, time.monotonic(), self.config)
        mode, changed_at, ramping, gated_at, gated_until = (_text(value or "") for value in kept)
        state = BreakerState(
            "closed" if mode in ("", "closed") else "open",
            changed_at=float(changed_at or 0),
            ramping=ramping == "1",
            gated_at=float(gated_at or 0),
            gated_until=float(gated_until or 0),
        )
        return rules.pace(state, int(seconds) + int(micro) / 1e6, self.config)

    def _ask_pace(self) -> Any:
        pipeline = self._guard.client.pipeline(transaction=False)
        fields = ["mode", "changed_at", "ramping", "gated_at", "gated_until"]
        pipeline.hmget(self._keys[0], fields)
        pipeline.time()
        return pipeline.execute()

    def mode(self) -> Mode:
        """Return the breaker's state, for GET /carriers."""
        try:
            kept = self._guard.ask(lambda: self._guard.client.hget(self._keys[0], "mode"))
        except Gone:
            return self._local.mode
        text = _text(kept or "closed")
        return "open" if text == "open" else "half_open" if text == "half_open" else "closed"


def _clock(now: float | None) -> str:
    return "" if now is None else repr(now)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
