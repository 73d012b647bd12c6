"""What is to happen to a deployment, and doesn't."""

from types import SimpleNamespace
from typing import Any

from loadtests.happenings import FAILED, Happenings
from loadtests.measure import _failed_events
from loadtests.scenario import Event


class Broken:
    """A simulator that refuses to break a carrier."""

    def fault(self, *_):
        raise RuntimeError("there is no carrier of that name")

    def heal(self, carrier):
        pass


def test_a_fault_that_could_not_be_begun_makes_its_run_invalid(monkeypatch):
    monkeypatch.setattr("loadtests.happenings.Simulator.of", lambda env: Broken())
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
