"""The retry policy as a table."""

import random

import pytest

from carriers.backoff import DEFAULT, decide, decide_lookup, jittered
from carriers.outcomes import Absent, Announced, NotSent, Refused, Throttled, Unknown

LABEL = Announced("1", "T1", ())
REFUSED = Refused("X", "no")
UNREACHABLE = NotSent("unreachable")
TIMEOUT = Unknown("timeout")
OPEN = NotSent("breaker_open", retry_after=7.0)
UNBUILDABLE = NotSent("unbuildable")
SECOND_STEP = Unknown("unbuildable")
EXPIRED = Refused("credentials", "no", credentials=True)
PROMISED, UNPROMISED = Throttled(20.0, True), Throttled(20.0, False)
HOUR = DEFAULT.max_unknown_age

TRIES = [
    # outcome, tries, repeats, was_unknown, again, unknown_age, state, delay between, remark
    (REFUSED, 1, "lookup", False, False, 0, "failed", (0, 0), "asking again won't help"),
    (REFUSED, 2, "lookup", True, False, 99, "unknown", (0, 2), "not final: look it up"),
    (REFUSED, 2, "dedup", True, True, 9, "needs_review", (0, 0), "not final: a person"),
    (REFUSED, 2, "none", True, False, 9, "needs_review", (0, 0), "not final: a person"),
    (EXPIRED, 2, "lookup", True, False, 9, "unknown", (0, 2), "401 proves no absence"),
    (UNREACHABLE, 1, "none", False, False, 0, "pending", (0, 1), "nothing sent: any may retry"),
    (UNREACHABLE, 4, "lookup", False, False, 0, "pending", (0, 8), "doubling"),
    (UNREACHABLE, 99, "lookup", False, False, 0, "pending", (0, 60), "until its deadline"),
    (UNREACHABLE, 2, "lookup", True, False, 99, "pending", (0, 2), "absent before, and not sent"),
    (UNREACHABLE, 2, "dedup", True, True, 9, "unknown", (0, 2), "the first may still stand"),
    (OPEN, 500, "lookup", False, False, 0, "pending", (7, 67), "after what our guard asked for"),
    (UNBUILDABLE, 1, "lookup", False, False, 0, "failed", (0, 0), "permanent"),
    (UNBUILDABLE, 2, "lookup", True, False, 0, "unknown", (0, 2), "not final after an unknown"),
    (SECOND_STEP, 1, "lookup", False, False, 0, "unknown", (0, 1), "the purchase was sent"),
    (SECOND_STEP, 1, "none", False, False, 0, "needs_review", (0, 0), "the same, no lookup"),
    (PROMISED, 1, "none", False, False, 0, "pending", (20, 21), "after what the carrier asked"),
    (PROMISED, 99, "none", False, False, 0, "pending", (20, 80), "a storm of 429 fails nothing"),
    (UNPROMISED, 1, "lookup", False, False, 0, "unknown", (0, 1), "no promise: look it up"),
    (UNPROMISED, 1, "none", False, False, 0, "needs_review", (0, 0), "no promise, no lookup"),
    (TIMEOUT, 1, "lookup", False, False, 0, "unknown", (0, 1), "reconcile"),
    (TIMEOUT, 9, "dedup", True, True, 0, "unknown", (0, 5), "again, at most 5 s later"),
    (TIMEOUT, 99, "dedup", True, True, 600, "unknown", (0, 60), "the older, the rarer"),
    (TIMEOUT, 40, "dedup", True, True, HOUR, "needs_review", (0, 0), "an hour without an answer"),
    (TIMEOUT, 2, "lookup", True, False, HOUR, "unknown", (0, 60), "old: the lookup decides"),
    (TIMEOUT, 1, "none", False, False, 0, "needs_review", (0, 0), "never bought by itself again"),
]


@pytest.mark.parametrize(
    ("outcome", "tries", "repeats", "unknown", "again", "age", "state", "between", "remark"), TRIES
)
def test_a_try_is_decided(outcome, tries, repeats, unknown, again, age, state, between, remark):
    for seed in range(20):
        decision = decide(
            outcome,
            tries,
            repeats=repeats,
            was_unknown=unknown,
            again=again,
            unknown_age=age,
            rng=random.Random(seed),
        )
        assert decision.state == state, remark
        assert between[0] <= decision.delay <= between[1], remark


LOOKUPS = [
    # result, settled_for, absences, repeats, refused, believed, state, delay between, remark
    (Absent(), 10, 0, 0, False, True, "unknown", (5, 5), "within the window: no absence"),
    (Absent(), 27, 0, 0, False, True, "unknown", (3, 3), "its end is near"),
    (Absent(), 30, 1, 0, False, True, "unknown", (1, 6), "once is not enough"),
    (Absent(), 35, 2, 0, False, True, "pending", (0, 0), "absence proved: buy again"),
    (Absent(), 35, 2, 1, False, True, "pending", (0, 0), "and again"),
    (Absent(), 35, 2, 2, False, True, "needs_review", (0, 0), "three came to nothing"),
    (Absent(), 35, 2, 0, True, True, "failed", (0, 0), "refused, and absent: that is final"),
    (Absent(), 35, 2, 0, False, False, "needs_review", (0, 0), "asked as somebody else"),
    (Absent(), 10, 2, 0, False, True, "unknown", (5, 5), "looks within the window prove nothing"),
    (Unknown("timeout"), 99, 0, 0, False, True, "unknown", (0, 10), "no answer is no absence"),
    (NotSent("unreachable"), 99, 2, 0, False, True, "unknown", (0, 10), "likewise"),
    (Unknown("timeout"), HOUR, 0, 0, False, True, "needs_review", (0, 0), "an hour of no answer"),
]


@pytest.mark.parametrize(
    ("result", "settled", "absences", "repeats", "refused", "believed", "state", "between", "why"),
    LOOKUPS,
)
def test_a_lookup_is_decided(
    result, settled, absences, repeats, refused, believed, state, between, why
):
    decision = decide_lookup(
        result,
        settled_for=settled,
        settling=30.0,
        absences=absences,
        looks=5,
        repeats=repeats,
        refused=refused,
        believed=believed,
        rng=random.Random(1),
    )
    assert decision.state == state, why
    assert between[0] <= decision.delay <= between[1], why


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
