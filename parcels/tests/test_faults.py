"""What the fault suite may ask for, and that nobody else may."""

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from carriers import transport
from carriers.call import Call
from carriers.outcomes import Announced
from parcels import faults
from parcels.services import announce, announcer
from parcels.tests.factories import AnnouncementFactory
from parcels.tests.test_announce import label


@pytest.fixture
def struck(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    signals: list[int] = []
    monkeypatch.setattr(signal, "pthread_kill", lambda thread, number: signals.append(number))
    monkeypatch.setattr(faults, "_passed", type(faults._passed)(faults._passed.default_factory))
    return signals


def test_each_nth_passing_is_struck(settings: Any, struck: list[int]) -> None:
    settings.FAULT_CRASH_AT = "after_reply:3"
    for _ in range(7):
        faults.passing("after_reply")
        faults.passing("before_intent")
    assert struck == [signal.SIGKILL] * 2


def test_a_pause_is_a_stop(settings: Any, struck: list[int]) -> None:
    settings.FAULT_PAUSE_AT = "before_send"
    faults.passing("before_send")
    assert struck == [signal.SIGSTOP]


@pytest.mark.parametrize("wanted", ["nowhere:2", "before_send:0", "before_send:x"])
@pytest.mark.parametrize("name", ["FAULT_CRASH_AT", "FAULT_PAUSE_AT"])
def test_a_point_that_is_not_there_ends_the_start(settings: Any, name: str, wanted: str) -> None:
    setattr(settings, name, wanted)
    with pytest.raises(ImproperlyConfigured, match=f"{name}='{wanted}' is not one of before"):
        faults.install()


@pytest.mark.parametrize(("company", "deaths"), [("sim:kill ", 1), ("SIM:HANG", 0), ("", 0)])
def test_one_payload_is_poison(settings: Any, struck: list[int], company: str, deaths: int) -> None:
    settings.FAULT_CRASH_AT = "poison"
    faults.passing("poison", company)
    assert len(struck) == deaths


@pytest.mark.django_db(transaction=True)
def test_a_label_passes_all_points_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    row = AnnouncementFactory.create()
    passed: list[str] = []

    def perform(steps: Any, url: str, deadline: float, *limits: Any) -> Announced:
        call = Call(url, monotonic() + deadline, *limits)
        call.leaving()  # nothing is bought yet
        call.begin(next(steps))
        call.leaving()
        steps.close()
        return label(1)

    for owner, name, _, _ in faults.PLACES:
        monkeypatch.setattr(owner, name, getattr(owner, name))  # put back by the fixture
    monkeypatch.setattr(transport, "perform", perform)
    monkeypatch.setattr(
        faults, "passing", lambda point, *_: passed.extend([point] if point else [])
    )
    faults.install()
    announce.announce(row.pk)
    assert passed == [
        *("before_intent", "poison", "after_intent", "before_send", "after_reply"),
        *("before_commit", "after_commit", "after_notify"),
    ]


def test_no_module_that_announces_is_without_points() -> None:
    """Each has names of its own for these functions: one that is added must be in PLACES."""
    named = {"prepare", "buy_async", "buy", "finish"}
    places = {place[:2] for place in faults.PLACES}
    for path in Path(announce.__file__).parent.glob("*.py"):
        module = importlib.import_module(f"parcels.services.{path.stem}")
        for name in named & set(vars(module)):
            if getattr(module, name).__module__ != module.__name__:  # imported, so called here
                assert (module, name) in places


async def test_a_coroutine_passes_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[str] = []

    async def buys(job: Any) -> str:
        passed.append(job)
        return "bought"

    monkeypatch.setattr(announcer, "buy_async", buys)
    place = announcer, "buy_async"
    monkeypatch.setattr(faults, "PLACES", [each for each in faults.PLACES if each[:2] == place])
    monkeypatch.setattr(faults, "passing", passed.append)
    faults.install()
    assert await announcer.buy_async("a job") == "bought"  # type: ignore[arg-type] # passed on as it is
    assert passed == ["after_intent", "a job", "after_reply"]


# A thread that freezes and then writes a byte, again and again, in a process that has others.
FREEZES = """
import os, signal, sys, threading, django
django.setup()
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
    environment = os.environ | {"DEBUG": "1", "FAULT_PAUSE_AT": "before_send"}
    child = subprocess.Popen(
        [sys.executable, "-c", FREEZES, whom],
        cwd=root, env=environment, stdout=subprocess.PIPE, bufsize=0,
    )  # fmt: skip
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
