"""The retry policy as a table."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

from carriers.backoff import DEFAULT, decide, decide_lookup, jittered
from carriers.outcomes import Absent, Announced, Found, NotSent, Refused, Throttled, Unknown

LABEL = Announced("1", "T1", Decimal("1.00"), ())
REFUSED = Refused("X", "no")
UNREACHABLE = NotSent("unreachable")
TIMEOUT = Unknown("timeout")
OPEN = NotSent("breaker_open")
PROMISED, UNPROMISED = Throttled(20.0, True), Throttled(20.0, False)
LATE = DEFAULT.max_age

TRIES = [
    # outcome, tries, age, repeats, was_unknown, state, delay between, remark
    (LABEL, 1, 0, "none", False, "announced", (0, 0), "bought"),
    (LABEL, 9, LATE, "dedup", True, "announced", (0, 0), "a label is taken however late"),
    (REFUSED, 1, 0, "lookup", False, "failed", (0, 0), "asking again won't help"),
    (REFUSED, 2, 9, "dedup", True, "failed", (0, 0), "dedup would have returned a first label"),
    (UNREACHABLE, 1, 0, "none", False, "pending", (0, 1), "nothing sent: any carrier may retry"),
    (UNREACHABLE, 4, 9, "lookup", False, "pending", (0, 8), "doubling"),
    (UNREACHABLE, 11, 9, "lookup", False, "pending", (0, 60), "capped"),
    (UNREACHABLE, 12, 9, "lookup", False, "failed", (0, 0), "the last try"),
    (UNREACHABLE, 1, LATE, "lookup", False, "failed", (0, 0), "too old"),
    (UNREACHABLE, 2, 9, "dedup", True, "unknown", (0, 2), "the first purchase may still stand"),
    (OPEN, 500, 9, "lookup", False, "pending", (0, 60), "waiting for the breaker is no try"),
    (OPEN, 500, LATE, "lookup", False, "failed", (0, 0), "but it does age"),
    (NotSent("unbuildable"), 1, 0, "lookup", False, "failed", (0, 0), "permanent"),
    (PROMISED, 1, 0, "none", False, "pending", (20, 21), "after what the carrier asked for"),
    (PROMISED, 12, 0, "none", False, "failed", (0, 0), "throttled for ever"),
    (UNPROMISED, 1, 0, "lookup", False, "unknown", (0, 1), "no promise: look it up"),
    (UNPROMISED, 1, 0, "none", False, "needs_review", (0, 0), "no promise and no lookup"),
    (TIMEOUT, 1, 0, "lookup", False, "unknown", (0, 1), "reconcile"),
    (TIMEOUT, 9, 0, "dedup", True, "unknown", (0, 5), "reconcile again, at most 5 s later"),
    (TIMEOUT, 40, 3600, "dedup", True, "needs_review", (0, 0), "an hour without an answer"),
    (TIMEOUT, 1, 3600, "lookup", False, "unknown", (0, 1), "old, but only now unknown"),
    (TIMEOUT, 1, 0, "none", False, "needs_review", (0, 0), "never bought again by itself"),
]


@pytest.mark.parametrize(
    ("outcome", "tries", "age", "repeats", "was_unknown", "state", "between", "remark"), TRIES
)
def test_a_try_is_decided(outcome, tries, age, repeats, was_unknown, state, between, remark):
    for seed in range(20):
        decision = decide(
            outcome,
            tries,
            age,
            repeats=repeats,
            was_unknown=was_unknown,
            rng=random.Random(seed),
        )
        assert decision.state == state, remark
        assert between[0] <= decision.delay <= between[1], remark


LOOKUPS = [
    # result, since_sent, absences, state, delay between, remark
    (Found((LABEL,)), 1, 0, "announced", (0, 0), "adopt it"),
    (Absent(), 10, 0, "unknown", (5, 5), "within the window: look again, believe no absence"),
    (Absent(), 27, 0, "unknown", (3, 3), "its end is near"),
    (Absent(), 30, 1, "unknown", (1, 6), "once is not enough"),
    (Absent(), 35, 2, "pending", (0, 0), "absence proved: buy again"),
    (Absent(), 10, 2, "unknown", (5, 5), "looks within the window prove nothing"),
    (Unknown("timeout"), 99, 0, "unknown", (0, 5), "no answer is no absence"),
    (NotSent("unreachable"), 99, 2, "unknown", (0, 5), "likewise"),
    (Unknown("timeout"), 3600, 0, "needs_review", (0, 0), "an hour without an answer"),
]


@pytest.mark.parametrize(
    ("result", "since_sent", "absences", "state", "between", "remark"), LOOKUPS
)
def test_a_lookup_is_decided(result, since_sent, absences, state, between, remark):
    decision = decide_lookup(
        result,
        since_sent=since_sent,
        settling=30.0,
        absences=absences,
        looks=5,
        rng=random.Random(1),
    )
    assert decision.state == state, remark
    assert between[0] <= decision.delay <= between[1], remark


def test_delays_spread_over_their_whole_range():
    rng = random.Random(7)
    delays = [jittered(5, rng, 1.0, 60.0) for _ in range(1000)]
    assert min(delays) < 2
    assert max(delays) > 30
    assert max(delays) <= 32


def test_a_seed_repeats_its_delays():
    draws = [[jittered(n, random.Random(3), 1.0, 60.0) for n in range(9)] for _ in range(2)]
    assert draws[0] == draws[1]


def test_absurd_numbers_of_tries_do_not_overflow():
    assert jittered(10**6, random.Random(1), 1.0, 60.0) <= 60.0
