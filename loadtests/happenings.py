"""What happens to a deployment while it is measured: faults begin and end, servers are reloaded."""

import threading
import time
from collections.abc import Sequence
from typing import Any

from deploy.simulator import Simulator
from deploy.stack import Stack
from loadtests.deployment import reload
from loadtests.scenario import Event

# What is noted of an event that did not happen begins so.
FAILED = "failed: "


class Happenings:
    """Carries out a phase's events at their times, in a thread; notes what it did."""

    def __init__(self, stack: Stack, events: Sequence[Event]) -> None:
        self._stack = stack
        self._events = events
        self._simulator = Simulator(stack.env)
        self._done: list[dict[str, Any]] = []
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, start: float) -> None:
        """Count the events' times from `start` on the monotonic clock."""
        self._thread = threading.Thread(target=self._run, args=(start,), daemon=True)
        self._thread.start()

    def end(self) -> list[dict[str, Any]]:
        """Leave out what has not happened yet, heal all carriers, return what was done."""
        self._end.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
        for carrier in {event.carrier for event in self._events if event.kind == "fault"}:
            self._simulator.heal(carrier)
        return self._done

    def _run(self, start: float) -> None:
        for event in self._events:
            if self._end.wait(max(start + event.at - time.monotonic(), 0)):
                return
            said = self._do(event)
            done = {"kind": event.kind, "what": event.what, "carrier": event.carrier, "said": said}
            self._done.append({"at": round(time.monotonic() - start, 3)} | done)

    def _do(self, event: Event) -> str:
        try:
            if event.kind == "reload":
                return reload(self._stack, event.what)
            if event.kind == "heal":
                self._simulator.heal(event.what)
            else:
                self._simulator.fault(event.carrier, event.what, event.settings)
        except (OSError, RuntimeError) as error:
            return f"{FAILED}{error}"
        return "done"
