"""A wrong setting is named by a system check, before it is found in an outage."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import run_checks

from carriers.adapters.postnl import PostNL

WRONG = [
    ({"ANNOUNCEMENT_LEASE": 50.0, "CARRIER_CALL_DEADLINE": 30.0}, "shipping.E001"),
    ({"CARRIERS": {}}, "shipping.E002"),
    ({"WAIT_DEFAULT": 200.0}, "shipping.E003"),
    ({"CARRIER_BREAKER_MIN_CALLS": 21}, "shipping.E007"),
    ({"CARRIER_BREAKER_RAMP_FROM": 51.0}, "shipping.E007"),
    ({"CARRIER_GUARD_TIMEOUT": 5.0}, "shipping.E007"),
    ({"FAULT_GUARDS_OFF": ["unknown"], "DEMO": False, "DEBUG": False}, "shipping.E008"),
    ({"FAULT_CRASH_AT": "after_send:2", "DEMO": False, "DEBUG": False}, "shipping.E008"),
    ({"FAULT_PAUSE_AT": "before_send", "DEMO": False, "DEBUG": False}, "shipping.E008"),
    ({"FAULT_GUARDS_OFF": ["luck"], "DEMO": True}, "shipping.E009"),
    ({"FAULT_CRASH_AT": "nowhere:2", "DEMO": True}, "shipping.E009"),
    ({"FAULT_PAUSE_AT": "before_send:0", "DEMO": True}, "shipping.E009"),
]
RIGHT: list[dict[str, Any]] = [
    {},
    {"FAULT_GUARDS_OFF": ["unknown"], "FAULT_CRASH_AT": "after_send:2", "DEMO": True},
]


def ids() -> set[str | None]:
    return {message.id for message in run_checks()}


@pytest.mark.parametrize(("wrong", "expected"), WRONG)
def test_wrong_settings_are_named(settings: Any, wrong: dict[str, Any], expected: str) -> None:
    for name, value in wrong.items():
        setattr(settings, name, value)
    assert expected in ids()


@pytest.mark.parametrize(("settling", "wrong"), [(29.9, True), (30.0, False)])
def test_a_settling_window_that_ends_before_the_carriers_work_is_named(
    monkeypatch: pytest.MonkeyPatch, settling: float, wrong: bool
) -> None:
    monkeypatch.setattr(PostNL, "settling", settling)
    assert ("shipping.E010" in ids()) is wrong


@pytest.mark.parametrize("right", RIGHT)
def test_right_settings_are_not(settings: Any, right: dict[str, Any]) -> None:
    settings.SECRET_KEY = "x" * 50
    for name, value in right.items():
        setattr(settings, name, value)
    assert not {id_ for id_ in ids() if str(id_).startswith("shipping.E")}
