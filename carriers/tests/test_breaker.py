"""The breaker's rules as plain functions."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carriers.breaker_rules import (
    BreakerConfig,
    BreakerState,
    admit,
    ramp,
    record,
    record_probe,
    throttle,
    verdict,
)
from carriers.classify import Phase, Promises, answer
from carriers.outcomes import Absent, Announced, Found, NotSent, Refused, Throttled, Unknown

CONFIG = BreakerConfig()
OPEN = BreakerState("open", changed_at=100.0)
PROBING = BreakerState("half_open", probe="p", changed_at=105.0)
RAMPING = BreakerState("closed", changed_at=100.0, ramping=True)
GATED = BreakerState("closed", gated_at=100.0, gated_until=130.0)

ADMISSIONS = [
    # state, now, allowed, probes, retry_after, remark
    (BreakerState(), 0.0, True, False, 0.0, "closed from the start"),
    (OPEN, 101.0, False, False, 4.0, "open: come back when it may be probed"),
    (OPEN, 105.0, False, True, 0.0, "the first after the wait is the prober"),
    (PROBING, 107.0, False, False, 3.0, "somebody is probing"),
    (PROBING, 110.0, False, True, 0.0, "that probe hangs, or its process was killed: the next one"),
    (RAMPING, 100.0, True, False, 0.0, "the first after a recovery"),
    (replace(RAMPING, admitted=1), 100.0, False, False, 0.5, "2/s: the next in half a second"),
    (replace(RAMPING, admitted=261), 109.99, False, False, 0.02, "nearly up, still bounded"),
    (replace(RAMPING, admitted=999), 110.0, True, False, 0.0, "the ramp is over"),
    (GATED, 129.0, False, False, 1.0, "the carrier asked for 30 s"),
    (GATED, 130.0, True, False, 0.0, "a trial"),
    (replace(GATED, gated_until=131.0), 130.5, False, False, 0.5, "one trial a second"),
    (replace(OPEN, gated_until=130.0), 105.0, False, False, 25.0, "no probe through a closed gate"),
]


@pytest.mark.parametrize(("state", "now", "allowed", "probes", "retry_after", "remark"), ADMISSIONS)
def test_a_call_is_admitted_by_the_state(state, now, allowed, probes, retry_after, remark):
    admission, _ = admit(state, now, "token", CONFIG)
    assert admission.allowed is allowed, remark
    assert admission.probe == ("token" if probes else ""), remark
    assert admission.retry_after == pytest.approx(retry_after, abs=0.01), remark


def after(failures, successes, state=None):
    state = state or BreakerState()
    for failed in [False] * successes + [True] * failures:
        state = record(state, 10.0, failed, CONFIG)
    return state.mode


RECORDS = [
    (9, 0, "closed", "nine calls are too few to judge"),
    (10, 0, "open", "ten of ten"),
    (9, 10, "closed", "under a half"),
    (10, 10, "open", "a half"),
    (9, 1000, "closed", "a good hour and nine failures"),
    (10, 1000, "open", "a good hour, and ten of the last twenty"),
]


@pytest.mark.parametrize(("failures", "successes", "mode", "remark"), RECORDS)
def test_a_share_of_failures_opens(failures, successes, mode, remark):
    assert after(failures, successes) == mode, remark


def test_old_failures_are_forgotten():
    state = BreakerState()
    for _ in range(9):
        state = record(state, 0.0, True, CONFIG)
    assert record(state, 61.0, True, CONFIG).mode == "closed"


@pytest.mark.parametrize("state", [OPEN, PROBING])
def test_results_of_calls_from_before_change_nothing(state):
    assert record(state, 101.0, True, CONFIG) == state
    assert record(state, 101.0, False, CONFIG) == state


def test_calls_begun_before_the_recovery_do_not_open_it_again():
    recovered = BreakerState("closed", changed_at=100.0)
    for _ in range(20):
        recovered = record(recovered, 101.0, True, CONFIG, lasted=1.5)
    assert recovered.mode == "closed"
    for _ in range(10):  # the same calls, begun after it
        recovered = record(recovered, 101.0, True, CONFIG, lasted=0.5)
    assert recovered.mode == "open"


def test_the_next_probe_is_due_five_seconds_after_the_last_ones_beginning():
    first, probing = admit(OPEN, 107.0, "p", CONFIG)
    assert first.probe
    assert admit(probing, 111.9, "q", CONFIG)[0].retry_after == pytest.approx(0.1)
    assert admit(probing, 112.0, "q", CONFIG)[0].probe == "q"


def test_any_probe_may_find_it_alive_and_the_last_one_dead():
    closed = record_probe(PROBING, 111.0, "p", True)
    assert closed.mode == "closed"
    assert closed.ramping
    assert record_probe(PROBING, 111.0, "p", False) == BreakerState("open", changed_at=111.0)
    assert record_probe(PROBING, 111.0, "an older one", True) == closed
    assert record_probe(PROBING, 111.0, "an older one", False) == PROBING
    assert record_probe(OPEN, 111.0, "p", True) == OPEN


def test_the_ramp_lets_out_what_its_rates_say():
    assert ramp(0.0, CONFIG) == (2.0, 1.0)
    assert ramp(10.0, CONFIG) == (50.0, 261.0)


def test_a_gate_closes_for_as_long_as_is_asked_and_never_for_less_than_before():
    closed = throttle(BreakerState(), 100.0, 30.0, CONFIG)
    assert (closed.mode, closed.gated_at, closed.gated_until) == ("closed", 100.0, 130.0)
    assert throttle(closed, 101.0, 0.0, CONFIG).gated_until == 130.0
    assert throttle(BreakerState(), 100.0, 0.0, CONFIG).gated_until == 101.0


def test_a_trial_s_answer_opens_the_gate_with_a_ramp():
    _, tried = admit(GATED, 130.0, "token", CONFIG)
    assert tried.gated_until == 131.0
    assert record(tried, 140.0, False, CONFIG, lasted=10.0) == replace(RAMPING, changed_at=140.0)


@pytest.mark.parametrize(
    ("failed", "lasted", "remark"),
    [(False, 45.0, "begun before the gate closed"), (True, 1.0, "a time-out is no answer")],
)
def test_what_is_no_trial_s_answer_leaves_the_gate_closed(failed, lasted, remark):
    after = record(GATED, 140.0, failed, CONFIG, lasted=lasted)
    assert (after.gated_at, after.gated_until) == (100.0, 130.0), remark


def test_a_gate_stays_closed_over_a_change_of_mode():
    state = GATED
    for _ in range(10):
        state = record(state, 101.0, True, CONFIG)
    assert (state.mode, state.gated_until) == ("open", 130.0)
    _, probing = admit(state, 131.0, "p", CONFIG)
    assert record_probe(probing, 132.0, "p", True).gated_at == 100.0


def test_failures_of_one_announcement_count_once():
    state = BreakerState()
    for second in range(50):
        state = record(state, second / 1.0, True, CONFIG, key="poison")
    assert (state.mode, len(state.outcomes)) == ("closed", 1)
    for number in range(9):
        state = record(state, 50.0, True, CONFIG, key=str(number))
    assert state.mode == "open"


def test_successes_of_one_announcement_all_count():
    state = BreakerState()
    for _ in range(5):
        state = record(state, 0.0, False, CONFIG, key="x")
    assert len(state.outcomes) == 5


EVENTS = st.lists(
    st.tuples(st.floats(0, 3), st.sampled_from(["admit", "fail", "ok", "alive", "dead"])),
    max_size=200,
)


@given(EVENTS)
def test_probes_are_five_seconds_apart(events):
    state, now, due = BreakerState(), 0.0, 0.0
    for number, (passed, event) in enumerate(events):
        now += passed
        if event == "admit":
            admission, state = admit(state, now, str(number), CONFIG)
            if admission.probe:
                assert now >= due
                due = now + CONFIG.open_for
            assert admission.allowed + bool(admission.probe) <= 1
            assert admission.allowed or admission.probe or admission.retry_after > 0
        elif event in ("fail", "ok"):
            state = record(state, now, event == "fail", CONFIG)
        else:
            state = record_probe(state, now, state.probe, event == "alive")
            due = 0.0 if state.mode == "closed" else due
        assert len(state.outcomes) <= CONFIG.window


LABEL = Announced("1", "T1", ())
BLAME = [
    (LABEL, False, "well done"),
    (Refused("X", "no"), False, "a refusal is work well done"),
    (Throttled(1.0, True), None, "closes the gate"),
    (Unknown("throttled"), None, "likewise"),
    (Unknown("no_lookup"), None, "nothing was asked"),
    (Found((LABEL,)), False, "it answers"),
    (Absent(), False, "it answers"),
    (Unknown("timeout"), True, "hangs"),
    (Unknown("server_error"), True, "broken"),
    (NotSent("unreachable"), True, "down"),
    (NotSent("breaker_open"), None, "we did not even try"),
    (NotSent("bulkhead_full"), None, "likewise"),
    (NotSent("unbuildable"), None, "our own data"),
    (NotSent("no_descriptors"), None, "our own process"),
    (NotSent("no_thread"), None, "likewise"),
    (Unknown("credentials"), None, "one account's wrong password stops no others"),
    (answer(403, None, None, Phase.BUYING, Promises()), None, "a revoked key, without words"),
    (answer(403, None, None, Phase.BEFORE, Promises()), None, "likewise, at a login"),
    (answer(403, None, None, Phase.VOIDING, Promises()), None, "likewise"),
]


@pytest.mark.parametrize(("outcome", "failure", "remark"), BLAME)
def test_what_counts_against_a_carrier(outcome, failure, remark):
    assert verdict(outcome)[0] is failure, remark


@pytest.mark.parametrize(
    ("outcome", "seconds"),
    [
        (Throttled(7.0, False), 7.0),
        (Throttled(None, True), 0.0),
        (Unknown("throttled"), 0.0),
        (Unknown("throttled", retry_after=7.0), 7.0),
        (Unknown("server_error", retry_after=7.0), None),
        (Unknown("timeout"), None),
        (Absent(), None),
    ],
)
def test_how_long_an_outcome_closes_the_gate(outcome, seconds):
    assert verdict(outcome)[1] == seconds
