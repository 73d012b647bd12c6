"""Stand between our processes and a carrier: ask before a call, note after it what it has shown.

The guards are in Redis and shared by all processes. Without Redis each process counts for itself,
with a breaker that starts closed; that is logged and counted.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

from carriers import registry
from carriers.guards import CarrierGuards, is_failure, throttled_for
from carriers.outcomes import LookupResult, Outcome, VoidResult
from parcels import faults
from parcels.models import Parcel
from parcels.services.carrier_guards import guards_of, probe_aside
from parcels.statuses import Status

# Seconds until a slot is asked for again; a range, so that those turned away together don't return
# together.
FULL_WAIT = (0.5, 2.0)
# Seconds in addition to the breaker's own delay, for the same reason.
OPEN_SPREAD = 2.0
# Seconds that a process believes what it read of a breaker or of health: both are hints there.
BELIEVED = 0.5
# Seconds of `Retry-After`, while nothing is known of the carrier yet.
DEFAULT_RETRY = 5


@dataclass(frozen=True, slots=True)
class Permit:
    """The permission to make one call; it is given back with `leave`."""

    guards: CarrierGuards
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


def enter(code: str, accounts: Sequence[int | None] = (None,)) -> list[Permit | TurnedAway]:
    """Ask to call a carrier, once for each account; never waits, but for Redis' time-out.

    A caller that is chosen to probe a half-open carrier does so in a separate thread.
    """
    guards = guards_of(code)
    answers: list[Permit | TurnedAway] = []
    for slot, admission in guards.enter([str(each or "") for each in accounts]):
        if admission is None:
            delay = settings.TIME_SCALE * random.uniform(*FULL_WAIT)
            answers.append(TurnedAway("bulkhead_full", delay))
        elif admission.allowed:
            answers.append(Permit(guards, slot))
        else:
            if admission.probe:
                probe_aside(guards, admission.probe)
            spread = settings.TIME_SCALE * random.uniform(0, OPEN_SPREAD)
            answers.append(TurnedAway("breaker_open", admission.retry_after + spread))
    return answers


def leave(*ended: Ended) -> None:
    """Give slots back and note the calls' results."""
    for guards in {each.permit.guards for each in ended}:
        slots: list[str] = []
        outcomes: list[tuple[bool, float, str]] = []
        bought: list[tuple[float, bool]] = []
        throttled: list[float] = []
        for each in ended:
            if each.permit.guards is not guards:
                continue
            slots.append(each.permit.slot)
            if each.outcome is None:
                continue
            asked = throttled_for(each.outcome)
            if asked is not None and not faults.is_off("gate"):
                throttled.append(asked)
            failed = is_failure(each.outcome)
            if failed is not None:
                outcomes.append((failed, each.duration, each.key))
                if each.buys:
                    bought.append((each.duration, not failed))
        guards.leave(slots, outcomes=outcomes, bought=bought, throttled=throttled)


def is_open(code: str) -> bool:
    """Tell whether calls to the carrier are held off for now, as of a moment ago."""
    return guards_of(code).mode(BELIEVED) != "closed"


def carriers_out() -> set[str]:
    """Return the carriers that `is_open` holds of. It may ask Redis: never in a transaction."""
    return {code for code in registry.CARRIERS if is_open(code)}


def retry_after(parcels: Sequence[Parcel]) -> int | None:
    """Return `Retry-After` in whole seconds; None when nothing is being announced any more.

    The recent median of the slowest carrier that is waited for; where its breaker is open, the
    default at least.
    """
    seconds: list[int] = []
    for code in {each.carrier for each in parcels if each.status == Status.BEING_ANNOUNCED}:
        median = guards_of(code).recent(BELIEVED).retry_after(DEFAULT_RETRY)
        seconds.append(max(median, DEFAULT_RETRY) if is_open(code) else median)
    return max(seconds, default=None)
