"""Circuit breaker: stop calling a carrier that doesn't answer, find out by one probe when it does.

The rules are pure functions over `BreakerState`. They run twice: in Redis, where all processes
share one state, as one atomic Lua script per operation (`carriers/lua/breaker_*.lua`; a test drives
both with the same random histories), and in this process, starting closed, while Redis is gone.
Nothing is locked during a call to a carrier.

closed → (share of failures) → open → (time) → half-open: exactly one caller is told to probe, with
a request that buys nothing → closed, ramping | open. After a recovery the backlog is let out at a
rising rate: a carrier just back is the easiest to knock over again.
"""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass, replace
from typing import Any, Literal

from carriers.backoff import OWN_GUARDS, PERMANENT
from carriers.outcomes import LookupResult, NotSent, Outcome, Unknown, VoidResult
from carriers.redis_guard import Gone, RedisGuard

Mode = Literal["closed", "open", "half_open"]

# These say something of us or of an account, not of the carrier.
BLAMELESS = frozenset({"credentials", "no_lookup", "throttled"})


@dataclass(frozen=True, slots=True)
class BreakerConfig:
    """The breaker's numbers; times in seconds, rates per second."""

    # Why 20: a carrier that hangs is found out within 20 calls even after a good hour.
    window: int = 20
    # Why a minute: older outcomes tell of another time.
    horizon: float = 60.0
    # Why 10: fewer calls fail together by chance.
    min_calls: int = 10
    # Why a half: carriers live with some per cent of errors; at a half most retries are in vain.
    share: float = 0.5
    # Why 5 s: one cheap probe each 5 s burdens nobody, and a recovery waits for 5 s at most.
    open_for: float = 5.0
    # Why 20 s: longer than a probe's total deadline; a killed prober's claim is free after it.
    probe_lease: float = 20.0
    # Why 10 s from 2/s to 50/s: some 260 calls, by when a window of 20 has judged many times over.
    ramp_for: float = 10.0
    ramp_from: float = 2.0
    ramp_to: float = 50.0


@dataclass(frozen=True, slots=True)
class BreakerState:
    """All that a breaker knows. `outcomes`: (time, failed), oldest first."""

    mode: Mode = "closed"
    outcomes: tuple[tuple[float, bool], ...] = ()
    changed_at: float = 0.0
    ramping: bool = False
    admitted: int = 0
    probe: str = ""
    probe_until: float = 0.0


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer to "may I call?". `probe` is a token: don't call, but probe and report with it.

    `retry_after` in seconds, where neither.
    """

    allowed: bool
    retry_after: float = 0.0
    probe: str = ""


def admit(
    state: BreakerState, now: float, token: str, config: BreakerConfig
) -> tuple[Admission, BreakerState]:
    """Decide about one call; the token becomes the probe's, if this caller is the one to probe."""
    if state.mode == "closed":
        return _admit_closed(state, now, config)
    until = state.probe_until if state.mode == "half_open" else state.changed_at + config.open_for
    if now < until:
        return Admission(False, until - now), state
    claimed = replace(state, mode="half_open", probe=token, probe_until=now + config.probe_lease)
    return Admission(False, probe=token), claimed


def _admit_closed(
    state: BreakerState, now: float, config: BreakerConfig
) -> tuple[Admission, BreakerState]:
    since = now - state.changed_at
    if not state.ramping or since >= config.ramp_for:
        return Admission(True), replace(state, ramping=False, admitted=0)
    rate, allowance = ramp(since, config)
    if state.admitted + 1 > allowance:
        return Admission(False, 1 / rate), state
    return Admission(True), replace(state, admitted=state.admitted + 1)


def ramp(since: float, config: BreakerConfig) -> tuple[float, float]:
    """Return (the rate now, calls allowed in all) after so many seconds of ramping."""
    slope = (config.ramp_to - config.ramp_from) / config.ramp_for
    return config.ramp_from + slope * since, 1 + config.ramp_from * since + slope * since**2 / 2


def record(
    state: BreakerState, now: float, failed: bool, config: BreakerConfig, lasted: float = 0.0
) -> BreakerState:
    """Note the outcome of a call that lasted so many seconds.

    Only a closed breaker listens, and only to calls begun since it closed: those from before the
    recovery, which time out one after the other, would open it again at once.
    """
    if state.mode != "closed" or now - lasted < state.changed_at:
        return state
    kept = [*state.outcomes, (now, failed)][-config.window :]
    recent = tuple(entry for entry in kept if entry[0] > now - config.horizon)
    failures = sum(failed for _, failed in recent)
    if len(recent) >= config.min_calls and failures >= config.share * len(recent):
        return BreakerState("open", changed_at=now)
    return replace(state, outcomes=recent)


def record_probe(state: BreakerState, now: float, token: str, alive: bool) -> BreakerState:
    """Note the probe's result; that of a claim which has run out and gone to another is ignored."""
    if state.mode != "half_open" or state.probe != token:
        return state
    if alive:
        return BreakerState("closed", changed_at=now, ramping=True)
    return BreakerState("open", changed_at=now)


def is_failure(outcome: Outcome | LookupResult | VoidResult) -> bool | None:
    """Tell whether an outcome counts against the carrier; None: it says nothing, don't record it.

    Time-outs and all other unknowns count, and what could not be sent; refusals do not.
    """
    if isinstance(outcome, NotSent):
        return None if outcome.reason in OWN_GUARDS | PERMANENT else True
    return isinstance(outcome, Unknown) and outcome.reason not in BLAMELESS


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
        self._lock = threading.Lock()
        self._local = BreakerState()

    def admit(self, now: float | None = None) -> Admission:
        """Ask before a call."""
        token = uuid.uuid4().hex
        config = self.config
        ramping = [config.ramp_for, config.ramp_from, config.ramp_to]
        arguments = [token, config.open_for, config.probe_lease, *ramping]
        try:
            allowed, retry_after, probe = self._admit(self._keys, [_clock(now), *arguments])
        except Gone:
            return self._admit_locally(token)
        return Admission(bool(allowed), float(retry_after), _text(probe))

    def _admit_locally(self, token: str) -> Admission:
        with self._lock:
            admission, self._local = admit(self._local, time.monotonic(), token, self.config)
        return admission

    def record(self, *, failed: bool, lasted: float = 0.0, now: float | None = None) -> None:
        """Report the outcome of a call that lasted so many seconds, see `is_failure`."""
        config = self.config
        arguments: list[Any] = [int(failed), config.window, config.horizon, config.min_calls]
        try:
            self._record(self._keys, [_clock(now), *arguments, config.share, lasted])
        except Gone:
            with self._lock:
                self._local = record(self._local, time.monotonic(), failed, config, lasted)

    def record_probe(self, token: str, *, alive: bool, now: float | None = None) -> None:
        """Report the result of the probe that `admit` asked for."""
        try:
            self._record_probe(self._keys, [_clock(now), token, int(alive)])
        except Gone:
            with self._lock:
                self._local = record_probe(self._local, time.monotonic(), token, alive)

    def pace(self) -> float | None:
        """Return the calls per second that it lets through now: None without limit, 0 if open."""
        try:
            kept, (seconds, micro) = self._guard.ask(self._ask_pace)
        except Gone:
            return _pace(self._local, time.monotonic(), self.config)
        mode, changed_at, ramping = (_text(value or "") for value in kept)
        state = BreakerState(
            "closed" if mode in ("", "closed") else "open",
            changed_at=float(changed_at or 0),
            ramping=ramping == "1",
        )
        return _pace(state, int(seconds) + int(micro) / 1e6, self.config)

    def _ask_pace(self) -> Any:
        pipeline = self._guard.client.pipeline(transaction=False)
        pipeline.hmget(self._keys[0], ["mode", "changed_at", "ramping"])
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


def _pace(state: BreakerState, now: float, config: BreakerConfig) -> float | None:
    if state.mode != "closed":
        return 0.0
    since = now - state.changed_at
    return ramp(since, config)[0] if state.ramping and since < config.ramp_for else None


def _clock(now: float | None) -> str:
    return "" if now is None else repr(now)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
