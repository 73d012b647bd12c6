"""What is to happen to a deployment, and doesn't."""

import time
from types import SimpleNamespace
from typing import Any

from deploy import strategy as strategies
from loadtests.deployment import reload
from loadtests.happenings import FAILED, Happenings
from loadtests.measure import _failed_events
from loadtests.scenario import Event


class Broken:
    """A simulator that refuses to break a carrier."""

    def fault(self, *_):
        raise RuntimeError("there is no carrier of that name")

    def heal(self, carrier):
        pass


class Notes:
    """A simulator that notes what it is asked for, and when."""

    def __init__(self):
        self.asked = []

    def fault(self, carrier, kind, settings):
        self.asked.append(("fault", carrier, kind, settings, time.monotonic()))

    def heal(self, carrier):
        self.asked.append(("heal", carrier, time.monotonic()))


def test_events_happen_at_their_times_and_what_is_left_over_does_not(monkeypatch):
    simulator = Notes()
    monkeypatch.setattr("loadtests.happenings.Simulator", lambda env: simulator)
    monkeypatch.setattr("loadtests.happenings.reload", lambda stack, what: f"reloaded {what}")
    events = [
        Event(0.1, "fault", "hang", carrier="colibri", settings={"calls": "all"}),
        Event(0.2, "reload", "app"),
        Event(0.3, "heal", "colibri"),
        Event(60.0, "fault", "slow", carrier="postnl"),
    ]
    stack: Any = SimpleNamespace(env={})
    happenings = Happenings(stack, events)
    start = time.monotonic()
    happenings.begin(start)
    while len(simulator.asked) < 2:
        time.sleep(0.01)
    done = happenings.end()
    assert [(one["kind"], one["what"], one["said"]) for one in done] == [
        ("fault", "hang", "done"),
        ("reload", "app", "reloaded app"),
        ("heal", "colibri", "done"),
    ]
    assert all(one["at"] >= event.at for one, event in zip(done, events, strict=False))
    (kind, carrier, fault, settings, at), (_, healed, later), *rest = simulator.asked
    assert (kind, carrier, fault, settings, healed) == (
        *("fault", "colibri", "hang", {"calls": "all"}),
        "colibri",
    )
    assert start + 0.1 <= at <= later
    assert {one[1] for one in rest} == {"colibri", "postnl"}  # all are well in the end


def test_a_fault_that_could_not_be_begun_makes_its_run_invalid(monkeypatch):
    monkeypatch.setattr("loadtests.happenings.Simulator", lambda env: Broken())
    event = Event(0.0, "fault", "hang", carrier="nobody", settings={})
    stack: Any = SimpleNamespace(env={})
    happenings = Happenings(stack, [event])
    happenings.begin(0.0)
    assert happenings._thread is not None
    happenings._thread.join()
    [done] = happenings.end()
    assert done["said"].startswith(FAILED)
    assert _failed_events([{"events": [done]}]) == [
        "fault hang failed: there is no carrier of that name"
    ]


def test_why_there_is_no_reload_is_what_the_strategy_says():
    bjoern: Any = SimpleNamespace(strategy=strategies.load("bjoern"))
    assert reload(bjoern, "app").startswith("no reload of the app: bjoern has no reload:")
    assert reload(bjoern, "front") == "no reload of the front: there is none"
