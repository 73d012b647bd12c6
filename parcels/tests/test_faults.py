"""What the fault suite may ask for, and that nobody else may."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from parcels import faults


@pytest.fixture
def struck(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    signals: list[int] = []
    monkeypatch.setattr(signal, "pthread_kill", lambda thread, number: signals.append(number))
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
    faults.passing("before_send")
    assert struck == [signal.SIGSTOP]


@pytest.mark.parametrize(("company", "deaths"), [("sim:kill ", 1), ("SIM:HANG", 0), ("", 0)])
def test_one_payload_is_poison(settings: Any, struck: list[int], company: str, deaths: int) -> None:
    settings.DEMO, settings.FAULT_CRASH_AT = True, "poison"
    faults.passing("poison", company)
    assert len(struck) == deaths


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


# A thread that freezes and then writes a byte, again and again, in a process that has others.
FREEZES = """
import os, signal, sys, threading
from django.conf import settings
settings.configure(DEBUG=True, FAULT_CRASH_AT="", FAULT_PAUSE_AT="before_send")
from parcels import faults
if sys.argv[1] == "process":
    signal.pthread_kill = lambda thread, number: os.kill(os.getpid(), number)
def work():
    while True:
        faults.passing("before_send")
        os.write(1, b".")
for _ in range(2):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
worker = threading.Thread(target=work)
worker.start()
worker.join()
"""
ROUNDS = 200


def bytes_too_early(whom: str) -> int:
    """Count the rounds in which a frozen process wrote on, of so many freezes."""
    root = Path(__file__).resolve().parents[2]
    child = subprocess.Popen(
        [sys.executable, "-c", FREEZES, whom], cwd=root, stdout=subprocess.PIPE, bufsize=0
    )
    assert child.stdout is not None
    os.set_blocking(child.stdout.fileno(), False)
    early = 0
    try:
        for turn in range(ROUNDS):
            _, status = os.waitpid(child.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status), f"it ended with {status}"
            written = len(child.stdout.read() or b"")
            early += written > (1 if turn else 0)
            child.send_signal(signal.SIGCONT)
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    return early


@pytest.mark.integration
def test_a_freeze_holds_exactly_at_its_point() -> None:
    """The guard's control: frozen as a whole, the process writes on in some of the rounds."""
    assert bytes_too_early("thread") == 0
    assert bytes_too_early("process") > 0
