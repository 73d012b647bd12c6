"""What the fault suite may ask for, and that nobody else may."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from parcels.services import faults


@pytest.fixture
def struck(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    signals: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: signals.append(number))
    monkeypatch.setattr(faults, "_passed", type(faults._passed)(faults._passed.default_factory))
    return signals


def test_each_nth_passing_is_struck(settings: Any, struck: list[int]) -> None:
    settings.DEMO, settings.FAULT_CRASH_AT = True, "after_reply:3"
    for _ in range(7):
        faults.passing("after_reply")
        faults.passing("before_intent")
    assert struck == [signal.SIGKILL] * 2


def test_a_pause_is_a_stop(settings: Any, struck: list[int]) -> None:
    settings.DEMO, settings.FAULT_PAUSE_AT = True, "before_send"
    faults.purchase_leaves()
    assert struck == [signal.SIGSTOP]


@pytest.mark.parametrize(
    ("debug", "demo", "honoured"), [(False, False, False), (True, False, True)]
)
def test_outside_demo_and_development_nothing_is_honoured(
    settings: Any, struck: list[int], debug: bool, demo: bool, honoured: bool
) -> None:
    settings.DEBUG, settings.DEMO = debug, demo
    settings.FAULT_CRASH_AT, settings.FAULT_GUARDS_OFF = "after_reply:1", ["unknown"]
    faults.passing("after_reply")
    assert bool(struck) is honoured
    assert faults.is_off("unknown") is honoured
