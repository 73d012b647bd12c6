"""Circuit breaker: stop calling a carrier that doesn't answer, find out by one probe when it does.

These rules are pure functions over `BreakerState`. They run twice: in Redis, where all processes
share one state, as one atomic Lua script per operation (`carriers/lua/breaker_*.lua`; a test drives
both with the same random histories), and in this process, starting closed, while Redis is gone:
`carriers.guards_local`. Nothing is locked during a call to a carrier.

closed → (share of failures) → open → (time) → half-open: one caller is told to probe, with a
request that buys nothing → closed, ramping | open. The next probe is due as long after the last
one's beginning, also while that one hangs: a probe begun in the outage may have no end, and a
recovery would wait for it. After it the backlog is let out at a rising rate: a carrier just back is
the easiest to knock over again.

Beside the mode there is a gate: a 429 closes it for as long as the carrier asks. Then one trial
call a second passes, until one of them is answered with anything but a 429 or a failure: that opens
the gate with the same ramp. A 429 says nothing of the carrier's health, so it is in no window.
"""

from dataclasses import dataclass, replace
from typing import Literal

from carriers.backoff import OWN_GUARDS, OWN_LIMITS, PERMANENT
from carriers.outcomes import LookupResult, NotSent, Outcome, Throttled, Unknown, VoidResult

# The carrier was not called, or the answer says nothing about its health.
SILENT = OWN_GUARDS | OWN_LIMITS | PERMANENT | {"no_lookup", "credentials"}
Mode = Literal["closed", "open", "half_open"]


@dataclass(frozen=True, slots=True)
class BreakerConfig:
    """The breaker's numbers; times in seconds, rates per second."""

    # Why 20: a carrier that hangs is detected within 20 calls even after an hour without failures.
    window: int = 20
    # Why a minute: older outcomes say nothing about the present.
    horizon: float = 60.0
    # Why 10: fewer calls fail together by chance.
    min_calls: int = 10
    # Why a half: some per cent of errors are normal; at a half most retries fail.
    share: float = 0.5
    # Why 5 s: one cheap probe each 5 s is no load, and a recovery is noticed after 5 s at most.
    open_for: float = 5.0
    # Why 10 s from 2/s to 50/s: some 260 calls, many times the window of 20 outcomes.
    ramp_for: float = 10.0
    ramp_from: float = 2.0
    ramp_to: float = 50.0
    # Why 1 s: if a 429 names no time, and between two trial calls: no carrier minds that.
    trial_every: float = 1.0


@dataclass(frozen=True, slots=True)
class BreakerState:
    """All that a breaker knows. `outcomes`: (time, failed, key), oldest first.

    `changed_at`: when it came to its mode; while it is half-open, when the last probe began.
    `gated_at`: when the gate closed, 0 while it is open; `gated_until`: when the next call may
    pass it.
    """

    mode: Mode = "closed"
    outcomes: tuple[tuple[float, bool, str], ...] = ()
    changed_at: float = 0.0
    ramping: bool = False
    admitted: int = 0
    probe: str = ""
    gated_at: float = 0.0
    gated_until: float = 0.0


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer to "may I call?". `probe` is a token: don't call, but probe and report with it.

    `retry_after` in seconds, where neither.
    """

    allowed: bool
    retry_after: float = 0.0
    probe: str = ""


def verdict(outcome: Outcome | LookupResult | VoidResult) -> tuple[bool | None, float | None]:
    """Tell whether an outcome counts against the carrier, and for how long a 429 asks for no calls.

    None instead of the first: it says nothing, don't record it, e.g. an answer that one account's
    credentials cause, and perhaps a firewall's. Time-outs and all other unknowns count, and what
    could not be sent; refusals do not.
    The second in seconds, 0 if the 429 names no time; None where there was none.
    """
    reason = getattr(outcome, "reason", "")
    if isinstance(outcome, Throttled) or (isinstance(outcome, Unknown) and reason == "throttled"):
        return None, outcome.retry_after or 0.0
    if reason in SILENT:
        return None, None
    return isinstance(outcome, NotSent | Unknown), None


def admit(
    state: BreakerState, now: float, token: str, config: BreakerConfig
) -> tuple[Admission, BreakerState]:
    """Decide about one call; the token becomes the probe's, if this caller is the one to probe."""
    if now < state.gated_until:
        return Admission(False, state.gated_until - now), state
    if state.mode == "closed" and state.gated_at:
        return Admission(True), replace(state, gated_until=now + config.trial_every)
    if state.mode == "closed":
        return _admit_closed(state, now, config)
    until = state.changed_at + config.open_for
    if now < until:
        return Admission(False, until - now), state
    return Admission(False, probe=token), replace(
        state, mode="half_open", probe=token, changed_at=now
    )


def _admit_closed(
    state: BreakerState, now: float, config: BreakerConfig
) -> tuple[Admission, BreakerState]:
    since = max(0.0, now - state.changed_at)  # another Redis, whose clock is behind
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
    state: BreakerState,
    now: float,
    failed: bool,
    config: BreakerConfig,
    lasted: float = 0.0,
    *,
    key: str = "",
) -> BreakerState:
    """Note the outcome of a call that lasted so many seconds.

    Only a closed breaker counts, and only calls that began since it closed: those from before the
    recovery, which time out one after the other, would open it again at once. Failures of one `key`
    count once: one failing announcement is not a failing carrier.
    """
    begun = now - lasted
    if state.mode != "closed" or begun < state.changed_at:
        return state
    if state.gated_at and not failed and begun >= state.gated_at:
        return BreakerState("closed", changed_at=now, ramping=True)
    recent = [entry for entry in state.outcomes if entry[0] > now - config.horizon]
    if not (failed and key and (True, key) in {entry[1:] for entry in recent}):
        recent = [*recent, (now, failed, key)][-config.window :]
    failures = sum(failed for _, failed, _ in recent)
    if len(recent) >= config.min_calls and failures >= config.share * len(recent):
        return _turned(state, "open", now)
    return replace(state, outcomes=tuple(recent))


def _turned(state: BreakerState, mode: Mode, now: float) -> BreakerState:
    """Return a new mode's state, ramping if it is closed; the gate stays as it is."""
    return BreakerState(
        mode,
        changed_at=now,
        ramping=mode == "closed",
        gated_at=state.gated_at,
        gated_until=state.gated_until,
    )


def throttle(
    state: BreakerState, now: float, seconds: float, config: BreakerConfig
) -> BreakerState:
    """Close the gate for so many seconds, and for a trial's distance at least."""
    until = max(state.gated_until, now + max(config.trial_every, seconds))
    return replace(state, gated_at=state.gated_at or now, gated_until=until)


def record_probe(state: BreakerState, now: float, token: str, alive: bool) -> BreakerState:
    """Note a probe's result: success from any probe, failure only from the last one."""
    if state.mode != "half_open" or not (alive or state.probe == token):
        return state
    return _turned(state, "closed" if alive else "open", now)


def pace(state: BreakerState, now: float, config: BreakerConfig) -> float | None:
    """Return the calls per second that are admitted now: None without limit, 0 if open."""
    if state.mode != "closed":
        return 0.0
    if state.gated_at:
        due = state.gated_until - now <= config.trial_every
        return 1 / config.trial_every if due else 0.0
    since = max(0.0, now - state.changed_at)
    return ramp(since, config)[0] if state.ramping and since < config.ramp_for else None
