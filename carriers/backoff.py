"""The next state of an announcement after a try: a pure function, tested as a table.

This is the only place that retries. Full jitter (a delay drawn from zero to the cap) so that a
carrier that recovers doesn't get all waiting calls at the same instant.
"""

import random
from dataclasses import dataclass
from typing import Literal, TypeGuard

from carriers.base import Repeats
from carriers.outcomes import (
    Absent,
    NotSent,
    Refused,
    Throttled,
    Unknown,
)

State = Literal["failed", "pending", "unknown", "needs_review"]

# Refused by our own guards: the carrier was not tried, so the tries don't count it.
OWN_GUARDS = frozenset({"breaker_open", "bulkhead_full", "send_forbidden"})

# This process has reached a limit of its own: nothing was sent, and the carrier isn't to blame.
OWN_LIMITS = frozenset({"no_descriptors", "no_thread"})

# The same request can't be built tomorrow either.
PERMANENT = frozenset({"unbuildable"})


def was_turned_away(result: object) -> TypeGuard[NotSent]:
    """Tell whether our own guards refused the call: it shows nothing, and counts as no try."""
    return isinstance(result, NotSent) and result.reason in OWN_GUARDS


@dataclass(frozen=True, slots=True)
class Policy:
    """The caps of retrying; all times in seconds."""

    # Why 1 s: an earlier retry meets the same short failure.
    first: float = 1.0
    # Why a minute: the end of an outage should be noticed within it.
    longest: float = 60.0
    # Why 5 s: reconciling is reading; it may be asked often, and someone may be waiting. An unknown
    # that is older than 50 s is asked for at each tenth of its age, up to `longest`.
    longest_unknown: float = 5.0
    # Why an hour: an unknown that a carrier couldn't resolve within it needs a person.
    max_unknown_age: float = 3_600.0
    # Why 2: one "absent" may come from a replica that lags behind the window.
    absences: int = 2
    # Why a second: the second lookup must not meet the same replication lag as the first.
    second_look: float = 1.0
    # Why 2: a carrier that three times took a request, answered nothing and has nothing will not
    # do better at the fourth; a person sees why.
    max_repeats: int = 2


DEFAULT = Policy()


@dataclass(frozen=True, slots=True)
class Decision:
    """The announcement's next state, the seconds until it is due there, and why for a person."""

    state: State
    delay: float = 0.0
    reason: str = ""


def jittered(tries: int, rng: random.Random, first: float, longest: float) -> float:
    """Draw a delay from zero to `first` * 2^tries, at most `longest`; `tries` counts from 0."""
    # Why 30: 2^30 s is over any cap, and a float overflows at 1024.
    return rng.uniform(0.0, min(longest, first * 2.0 ** min(tries, 30)))


def decide(
    outcome: Refused | Throttled | NotSent | Unknown,
    tries: int,
    *,
    repeats: Repeats,
    rng: random.Random,
    was_unknown: bool = False,
    again: bool = False,
    unknown_age: float = 0.0,
    policy: Policy = DEFAULT,
) -> Decision:
    """Decide after a try to buy that brought no label: one is taken however late it comes.

    `tries` includes this one. `was_unknown`: an earlier try was, for the first time `unknown_age`
    seconds ago; no refusal is final then. `again`: the try was the same reference sent again to a
    *dedup* carrier, to resolve an unknown. What doesn't answer then leaves it unknown, as the first
    purchase may still stand.

    What provably made nothing is tried until the announcement's deadline, which the claim knows.
    """
    never_left = isinstance(outcome, NotSent) and outcome.reason in PERMANENT
    if never_left or isinstance(outcome, Refused):
        if not was_unknown:
            return Decision("failed")
        if repeats != "lookup":
            return Decision("needs_review")
    elif not again and (
        isinstance(outcome, NotSent) or (isinstance(outcome, Throttled) and outcome.nothing_made)
    ):
        delay = jittered(tries - 1, rng, policy.first, policy.longest)
        return Decision("pending", (getattr(outcome, "retry_after", 0.0) or 0.0) + delay)
    if repeats == "none" or (again and unknown_age >= policy.max_unknown_age):
        return Decision("needs_review")
    return _unknown(tries, unknown_age, rng, policy)


def _unknown(tries: int, age: float, rng: random.Random, policy: Policy) -> Decision:
    longest = min(policy.longest, max(policy.longest_unknown, age / 10))
    return Decision("unknown", jittered(tries - 1, rng, policy.first, longest))


def decide_lookup(
    result: Absent | NotSent | Unknown,
    *,
    settled_for: float,
    settling: float,
    absences: int,
    looks: int,
    repeats: int = 0,
    refused: bool = False,
    believed: bool = True,
    rng: random.Random,
    policy: Policy = DEFAULT,
) -> Decision:
    """Decide after a lookup of an unknown announcement.

    `settled_for` in seconds since the last purchase's call ended: an earlier one's absence is
    proved. `absences` counts the looks *after* the settling window that found nothing, this one
    included; `looks` all of them; `repeats` the purchases after a proved absence. `refused`: the
    last purchase was. `believed`: the carrier was asked with the credentials that bought.
    """
    if isinstance(result, Absent):
        if settled_for < settling:
            # A lookup costs little, and a client may be waiting for a label that is there earlier.
            longest = max(policy.longest_unknown, settled_for / 10)
            return Decision("unknown", min(settling - settled_for, longest))
        if absences >= policy.absences:
            return _absent(repeats, refused, believed, policy)
        again = _unknown(looks, 0.0, rng, policy)
        return Decision("unknown", policy.second_look + again.delay)
    if settled_for >= policy.max_unknown_age:
        return Decision("needs_review", reason="The carrier gave no answer to any lookup.")
    return _unknown(looks, settled_for, rng, policy)


def _absent(repeats: int, refused: bool, believed: bool, policy: Policy) -> Decision:
    if not believed:
        return Decision("needs_review", reason="Credentials were changed after the purchase.")
    if refused:
        return Decision("failed")
    if repeats >= policy.max_repeats:
        return Decision("needs_review", reason="Each of its purchases came to nothing.")
    return Decision("pending")
