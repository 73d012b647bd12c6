"""Stand between our processes and a carrier: its bulkhead, its circuit breaker, its recent health.

All three are in Redis and shared by all processes. Without Redis each process counts for itself,
with a breaker that starts closed; that is logged and counted.
"""

from __future__ import annotations

import functools
import logging
import math
import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

import redis
from django.conf import settings

from carriers import registry, transport
from carriers.breaker import CircuitBreaker, is_failure, throttled_for
from carriers.breaker_rules import Admission, BreakerConfig, Mode
from carriers.bulkhead import SHARE, Bulkhead
from carriers.health import Health, Snapshot
from carriers.outcomes import Answered, LookupResult, Outcome, ProbeResult, VoidResult
from carriers.redis_guard import RedisGuard
from offload.redis_clients import sync_client
from parcels import faults, metrics
from parcels.models import Parcel
from parcels.statuses import Status

log = logging.getLogger(__name__)

# Seconds until a slot is asked for again; a range, so that those turned away together don't return
# together.
FULL_WAIT = (0.5, 2.0)
# Seconds in addition to the breaker's own delay, for the same reason.
OPEN_SPREAD = 2.0
# Seconds that a process believes what it read of a breaker or of health: both are hints there.
BELIEVED = 0.5
# Seconds of `Retry-After`, while nothing is known of the carrier yet.
DEFAULT_RETRY = 5
# For the fault suite's controls: more calls, and a larger share of failures, than there can be.
NO_BOUND = 1_000_000
NEVER = 2.0


@dataclass(frozen=True, slots=True)
class Permit:
    """The permission to make one call; it is given back with `leave`."""

    guards: Guards
    slot: str


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """No call now: `reason` as in `NotSent`, `delay` the seconds until asking again makes sense."""

    reason: str
    delay: float


@dataclass(frozen=True, slots=True)
class Ended:
    """A call that has ended, `outcome` None: there was none; `duration` in seconds.

    Only what `buys` counts for the carrier's median: clients wait for these. `key` is the
    announcement's reference: its failures count once.
    """

    permit: Permit
    outcome: Outcome | LookupResult | VoidResult | None
    duration: float = 0.0
    buys: bool = True
    key: str = ""


@dataclass(frozen=True, slots=True)
class CarrierStatus:
    """A carrier's health, for operators and for GET /carriers."""

    mode: Mode
    in_flight: int
    limit: int
    recent: Snapshot


class Guards:
    """What guards one carrier."""

    def __init__(self, code: str) -> None:
        self.code = code
        prefix = settings.CARRIER_GUARD_PREFIX
        self.breaker = CircuitBreaker(
            _guard("breaker"), code, config=breaker_config(), prefix=prefix
        )
        self.bulkhead = Bulkhead(
            _guard("bulkhead"),
            code,
            limit=NO_BOUND
            if faults.is_off("bulkhead")
            else int(settings.CARRIERS[code]["bulkhead"]),
            # A lease that a killed process leaves behind ends with the announcement's own.
            lease=settings.ANNOUNCEMENT_LEASE,
            share=0 if faults.is_off("turns") else SHARE,
            prefix=prefix,
        )
        self.health = Health(_guard("health"), code, prefix=prefix)
        self._mode: tuple[float, Mode] = (-BELIEVED, "closed")
        self._recent: tuple[float, Snapshot] | None = None

    def mode(self) -> Mode:
        """Return the breaker's state as of a moment ago."""
        if monotonic() - self._mode[0] > BELIEVED:
            self._mode = (monotonic(), self.breaker.mode())
        return self._mode[1]

    def recent(self) -> Snapshot:
        """Return the recent calls' figures as of a moment ago."""
        if self._recent is None or monotonic() - self._recent[0] > BELIEVED:
            self._recent = (monotonic(), self.health.read())
        return self._recent[1]


def breaker_config() -> BreakerConfig:
    """Return the breakers' numbers from the settings."""
    return BreakerConfig(
        window=settings.CARRIER_BREAKER_WINDOW,
        horizon=settings.CARRIER_BREAKER_HORIZON,
        min_calls=settings.CARRIER_BREAKER_MIN_CALLS,
        share=NEVER if faults.is_off("breaker") else settings.CARRIER_BREAKER_SHARE,
        open_for=settings.CARRIER_BREAKER_OPEN_FOR,
        ramp_for=0.0 if faults.is_off("ramp") else settings.CARRIER_BREAKER_RAMP_FOR,
        ramp_from=settings.CARRIER_BREAKER_RAMP_FROM,
        ramp_to=settings.CARRIER_BREAKER_RAMP_TO,
        trial_every=settings.TIME_SCALE,
    )


@functools.cache
def _client() -> redis.Redis:
    return sync_client(settings.GUARDS_URL, time_out=settings.CARRIER_GUARD_TIMEOUT)


@functools.cache
def _guard(purpose: str) -> RedisGuard:
    return RedisGuard(_client(), purpose, on_trouble=metrics.guard_trouble)


@functools.cache
def guards_of(code: str) -> Guards:
    """Return this process's guards to a carrier."""
    return Guards(code)


def forget() -> None:
    """Drop all connections and local states, e.g. when a test changes the settings."""
    for cached in (_guard, guards_of):
        cached.cache_clear()


def enter(code: str, accounts: Sequence[int | None] = (None,)) -> list[Permit | TurnedAway]:
    """Ask to call a carrier, once for each account; never waits, but for Redis' time-out.

    A caller that is chosen to probe a half-open carrier does so in a separate thread.
    """
    guards = guards_of(code)
    slots = guards.bulkhead.acquire_all([str(each or "") for each in accounts])
    free = [slot for slot in slots if slot is not None]
    admissions = dict(zip(free, guards.breaker.admit_all(len(free)), strict=True)) if free else {}
    refused = [slot for slot in free if not admissions[slot].allowed]
    guards.bulkhead.release(*refused)
    for slot in refused:
        if token := admissions[slot].probe:
            _probe_aside(guards, token)
    return [_answer(guards, slot, admissions) for slot in slots]


def _answer(
    guards: Guards, slot: str | None, admissions: Mapping[str, Admission]
) -> Permit | TurnedAway:
    if slot is None:
        return TurnedAway("bulkhead_full", settings.TIME_SCALE * random.uniform(*FULL_WAIT))
    if admissions[slot].allowed:
        return Permit(guards, slot)
    spread = settings.TIME_SCALE * random.uniform(0, OPEN_SPREAD)
    return TurnedAway("breaker_open", admissions[slot].retry_after + spread)


def leave(*ended: Ended) -> None:
    """Give slots back and note the calls' results."""
    for guards in {each.permit.guards for each in ended}:
        calls = [each for each in ended if each.permit.guards is guards]
        # Before the slots are free: the caller that takes one next must know what was shown.
        _note(guards, calls)
        guards.bulkhead.release(*(each.permit.slot for each in calls))


def _note(guards: Guards, calls: Sequence[Ended]) -> None:
    outcomes: list[tuple[bool, float, str]] = []
    bought: list[tuple[float, bool]] = []
    for each in calls:
        if each.outcome is None:
            continue
        asked = throttled_for(each.outcome)
        if asked is not None and not faults.is_off("gate"):
            guards.breaker.throttle(asked)
        failed = is_failure(each.outcome)
        if failed is not None:
            outcomes.append((failed, each.duration, each.key))
            if each.buys:
                bought.append((each.duration, not failed))
    if outcomes:
        guards.breaker.record_all(outcomes)
    if bought:
        guards.health.record(*bought)


def probe_if_due(code: str) -> None:
    """Probe a carrier whose breaker is due for it, even without calls."""
    guards = guards_of(code)
    if guards.breaker.mode() == "closed":
        return
    admission = guards.breaker.admit()
    if admission.probe:
        _probe_aside(guards, admission.probe)


def _probe_aside(guards: Guards, token: str) -> None:
    threading.Thread(target=probe, args=(guards, token), name=f"probe-{guards.code}").start()


def probe(guards: Guards, token: str) -> ProbeResult:
    """Find out, without buying, whether the carrier is back, and tell the breaker."""
    carrier = registry.carrier(guards.code)
    result = transport.perform(
        # A refusal of these credentials also shows that the carrier is up.
        carrier.probe(settings.HOUSE_CREDENTIALS[guards.code]),
        str(settings.CARRIERS[guards.code]["url"]),
        settings.CARRIER_PROBE_DEADLINE,
        settings.CARRIER_CONNECT_TIMEOUT,
    )
    alive = isinstance(result, Answered)
    guards.breaker.record_probe(token, alive=alive)
    log.warning("probed %s: %s", guards.code, "alive" if alive else "still down")
    return result


def is_open(code: str) -> bool:
    """Tell whether calls to the carrier are held off for now, as of a moment ago."""
    return guards_of(code).mode() != "closed"


def carriers_out() -> set[str]:
    """Return the carriers that `is_open` holds of. It may ask Redis: never in a transaction."""
    return {carrier.code for carrier in registry.all_carriers() if is_open(carrier.code)}


def retry_after(parcels: Sequence[Parcel]) -> int | None:
    """Return `Retry-After` in whole seconds; None when nothing is being announced any more.

    The recent median of the slowest carrier that is waited for; where its breaker is open, the
    default at least.
    """
    seconds: list[int] = []
    for code in {each.carrier for each in parcels if each.status == Status.BEING_ANNOUNCED}:
        median = guards_of(code).recent().retry_after(DEFAULT_RETRY)
        seconds.append(max(median, DEFAULT_RETRY) if is_open(code) else median)
    return max(seconds, default=None)


def room(code: str) -> int:
    """Return how many announcements it makes sense to wake in the next second.

    No more than there are slots: the share that a single account leaves free is enough reserve for
    slots that become free meanwhile.
    """
    guards = guards_of(code)
    pace = guards.breaker.pace()
    free = guards.bulkhead.limit - guards.bulkhead.in_flight()
    return max(0, math.ceil(free if pace is None else min(pace, free)))


def status(code: str) -> CarrierStatus:
    """Return the carrier's health."""
    guards = guards_of(code)
    return CarrierStatus(
        guards.breaker.mode(),
        guards.bulkhead.in_flight(),
        guards.bulkhead.limit,
        guards.health.read(),
    )
