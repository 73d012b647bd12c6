"""What becomes of an announcement after a try: a pure function, tested as a table.

This is the only place that retries. Full jitter (a delay drawn from zero to the cap) because a
carrier that comes back must not meet everyone who waited at the same instant.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from carriers.base import Repeats
from carriers.outcomes import (
    Absent,
    Announced,
    Found,
    LookupResult,
    NotSent,
    Outcome,
    Refused,
    Throttled,
)

State = Literal["announced", "failed", "pending", "unknown", "needs_review"]

# Refused by our own guards: the carrier was not tried, so the tries don't count it.
OWN_GUARDS = frozenset({"breaker_open", "bulkhead_full", "send_forbidden"})

# The same request can't be built tomorrow either.
PERMANENT = frozenset({"unbuildable"})


@dataclass(frozen=True, slots=True)
class Policy:
    """The caps of retrying; all times in seconds."""

    # Why 1 s: under it a retry meets the same hiccup.
    first: float = 1.0
    # Why a minute: an outage's end should not go unnoticed for longer.
    longest: float = 60.0
    # Why 12: some three minutes on average. An outage outlasts that, but then the breaker is open,
    # and waiting for it does not count.
    max_tries: int = 12
    # Why a day: a label that is bought later than that surprises more than it helps.
    max_age: float = 86_400.0
    # Why 5 s: reconciling is reading; it may be asked often, and someone may be waiting.
    longest_unknown: float = 5.0
    # Why an hour: an unknown that a carrier couldn't resolve within it needs a person.
    max_unknown_age: float = 3_600.0
    # Why 2: one "absent" may come from a replica that lags behind the window.
    absences: int = 2
    # Why a second: the second look must not meet the very same lag as the first.
    second_look: float = 1.0


DEFAULT = Policy()


@dataclass(frozen=True, slots=True)
class Decision:
    """The announcement's next state, and the seconds until it is due there."""

    state: State
    delay: float = 0.0


def jittered(tries: int, rng: random.Random, first: float, longest: float) -> float:
    """Draw a delay from zero to `first` * 2^tries, at most `longest`; `tries` counts from 0."""
    # Why 30: 2^30 s is over any cap, and a float overflows at 1024.
    return rng.uniform(0.0, min(longest, first * 2.0 ** min(tries, 30)))


def decide(
    outcome: Outcome,
    tries: int,
    age: float,
    *,
    repeats: Repeats,
    rng: random.Random,
    was_unknown: bool = False,
    policy: Policy = DEFAULT,
) -> Decision:
    """Decide after a try to buy.

    `tries` includes this one; `age` is seconds since the announcement was made. `was_unknown`: the
    try was the same reference sent again to a *dedup* carrier, to resolve an unknown. What doesn't
    answer then leaves it unknown, as the first purchase may still stand.
    """
    if isinstance(outcome, Announced):
        return Decision("announced")
    if isinstance(outcome, Refused):
        return Decision("failed")
    if was_unknown or not _proves_absence(outcome):
        if repeats == "none" or (was_unknown and age >= policy.max_unknown_age):
            return Decision("needs_review")
        return _unknown(tries, rng, policy)
    if _exhausted(outcome, tries, policy) or age >= policy.max_age:
        return Decision("failed")
    at_least = outcome.retry_after or 0.0 if isinstance(outcome, Throttled) else 0.0
    delay = jittered(tries - 1, rng, policy.first, policy.longest)
    return Decision("pending", at_least + delay)


def _proves_absence(outcome: Outcome) -> bool:
    return isinstance(outcome, NotSent) or (isinstance(outcome, Throttled) and outcome.nothing_made)


def _exhausted(outcome: Outcome, tries: int, policy: Policy) -> bool:
    if isinstance(outcome, NotSent) and outcome.reason in OWN_GUARDS:
        return False
    return tries >= policy.max_tries or getattr(outcome, "reason", "") in PERMANENT


def _unknown(tries: int, rng: random.Random, policy: Policy) -> Decision:
    return Decision("unknown", jittered(tries - 1, rng, policy.first, policy.longest_unknown))


def decide_lookup(
    result: LookupResult,
    *,
    since_sent: float,
    settling: float,
    absences: int,
    looks: int,
    rng: random.Random,
    policy: Policy = DEFAULT,
) -> Decision:
    """Decide after a lookup of an unknown announcement.

    `since_sent` in seconds; `absences` counts the looks *after* the settling window that found
    nothing, this one included; `looks` all of them. Found several: the first is adopted, and the
    caller voids the rest.
    """
    if isinstance(result, Found):
        return Decision("announced")
    if isinstance(result, Absent):
        if since_sent < settling:
            # Looking costs little, and someone may be waiting for what is there before the end.
            return Decision("unknown", min(settling - since_sent, policy.longest_unknown))
        if absences >= policy.absences:
            return Decision("pending")
        again = _unknown(looks, rng, policy)
        return Decision("unknown", policy.second_look + again.delay)
    if since_sent >= policy.max_unknown_age:
        return Decision("needs_review")
    return _unknown(looks, rng, policy)
