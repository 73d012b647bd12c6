"""When a fault strikes, and which parameters it takes."""

from typing import get_args

import pytest

from carriers.simulator import faults as _registers  # noqa: F401
from carriers.simulator.call import Call, Kind
from carriers.simulator.fault import KINDS, Fault, make
from carriers.simulator.params import BadParams, Params


def test_every_file_is_a_kind():
    wanted = "slow hang refuse error reset_before reset_after truncate corrupt trickle"
    wanted += " late_commit throttle flap"
    assert set(wanted.split()) <= set(KINDS)


def at(fault, age):
    return fault.began + age


def test_flap_alternates():
    flap = make("flap", Params({"period": 10, "of": "error", "after": 5}))
    call = Call("buy", "r1")
    # Beside the bounds: on one, the sum of two times may be rounded to either side.
    ages = (0, 5.1, 9.9, 10.1, 14.9, 15.1, 19.9, 20.1)
    struck = [flap.strikes(call, at(flap, age)) for age in ages]
    assert struck == [False, True, True, False, False, True, True, False]


def test_a_fault_has_its_time():
    fault = make("error", Params({"after": 2, "for": 3}))
    ages = (0, 1.9, 2.1, 4.9, 5.1)
    assert [fault.state(at(fault, age)) for age in ages] == [
        "waiting",
        "waiting",
        "active",
        "active",
        "over",
    ]


def struck(references, **params):
    fault = make("error", Params(params))
    now = at(fault, 0)
    return [r for r in references if fault.strikes(Call("buy", r), now)]


def test_a_share_is_met_and_always_strikes_the_same():
    references = [str(number) for number in range(5_000)]
    first = struck(references, share=0.05)
    assert 200 <= len(first) <= 300
    assert struck(references, share=0.05) == first
    assert struck(references, share=0.05, seed=2) != first
    assert struck(references, share=0) == []
    assert struck(references) == references


def test_each_try_of_a_reference_has_its_own_chance():
    assert 20 <= len(struck(["same"] * 100, share=0.5)) <= 80


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ("buy", ["buy"]),
        ("lookup", ["lookup"]),
        ("void", ["void"]),
        ("all", ["buy", "lookup", "void", "login"]),
    ],
)
def test_faults_strike_the_calls_that_they_are_for(calls, expected):
    fault = make("error", Params({"calls": calls}))
    now = at(fault, 0)
    assert [kind for kind in get_args(Kind) if fault.strikes(Call(kind, "r"), now)] == expected


@pytest.mark.parametrize(
    ("kind", "params", "named"),
    [
        ("error", {"share": 1.1}, "share"),
        ("error", {"share": True}, "share"),
        ("error", {"share": "1"}, "share"),
        ("error", {"share": float("nan")}, "share"),
        ("error", {"status": 404}, "status"),
        ("error", {"status": 500.5}, "status"),
        ("error", {"when": "during"}, "when"),
        ("error", {"calls": "some"}, "calls"),
        ("error", {"for": 0}, "for"),
        ("error", {"after": -1}, "after"),
        ("error", {"until": 3}, "unknown: until"),
        ("slow", {"seconds": []}, "seconds"),
        ("throttle", {"retry_after": -1}, "retry_after"),
        ("throttle", {"retry_after": 1.5}, "retry_after"),
        ("refuse", {"share": 0.5}, "unknown: share"),
        ("flap", {"of": "flap"}, "of"),
        ("flap", {"of": "error", "with": {"status": 1}}, "status"),
        ("flap", {"with": 7}, "with"),
    ],
)
def test_a_wrong_parameter_is_named(kind, params, named):
    with pytest.raises(BadParams, match=f"^{named}"):
        make(kind, Params(params))


def test_a_new_kind_needs_nothing_but_its_class():
    try:

        class Sulk(Fault):
            kind = "sulk"

        assert isinstance(make("sulk", Params({})), Sulk)
    finally:
        KINDS.pop("sulk", None)
