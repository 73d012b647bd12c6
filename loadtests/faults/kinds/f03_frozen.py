"""F3: a worker frozen for longer than its lease, before it sends or before it records; thawed."""

import os
import signal
from functools import partial

import psutil

from deploy.child import Child
from loadtests.faults.fault import (
    REST,
    SOLD_TWICE,
    STARTING,
    Control,
    Dose,
    Fault,
    Measure,
    register,
)
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig

# Carriers that sell a repeated reference again.
DOUBLING = ("postnl", "meridian")
BEFORE_SEND, BEFORE_RECORD = "after_intent", "after_reply"


@register
class Frozen(Fault):
    """Another has taken the row over and bought the label before the thaw.

    Frozen between its guard's row and the call, only a second look at the clock keeps it from
    buying again. Frozen between an answer (429, nothing was made) and its record, only the fence
    keeps it from making the announced row pending, which is then bought again.
    """

    id = "F3"
    title = "SIGSTOP longer than the lease"
    doses = {"short": Dose(60, 2), "full": Dose(200, 2)}
    controls = {"send_guard": Control(SOLD_TWICE), "fence": Control(SOLD_TWICE)}
    froze = recorded = 0

    def strike(self, rig: Rig) -> None:
        each = self.dose.requests // self.dose.strikes
        rig.stack.stop("worker")
        for strike in range(self.dose.strikes):
            point = (BEFORE_SEND, BEFORE_RECORD)[strike % 2]
            frozen = self._freeze(rig, point, each, f"s{strike}")
            rig.stack.start("worker")
            rig.wait_until(lambda: not rig.database.unfinished(), STARTING + REST * rig.scale)
            self._thaw(rig, frozen)
            rig.stack.stop("worker")
        rig.stack.start("worker")

    def _freeze(self, rig: Rig, point: str, requests: int, prefix: str) -> Child:
        """Return a worker that has frozen in the middle of its work."""
        if point == BEFORE_RECORD:
            for carrier in DOUBLING:
                rig.fault(carrier, "throttle", retry_after=1)
        frozen = rig.one_more("worker", env={"FAULT_PAUSE_AT": f"{point}:1"})
        first, *others = rig.wishes(requests, carriers=DOUBLING, prefix=prefix)
        # One call: another thread might stand between its look at the clock and its first byte.
        # That hole is known (docs/protocol.md), and not what is measured here.
        load = rig.send([first])
        if rig.wait_until(partial(_is_stopped, frozen), STARTING):
            self.froze += 1
            rig.note(f"frozen by itself at {point}")
        rig.send(others).join()
        load.join()
        rig.heal()
        return frozen

    def _thaw(self, rig: Rig, frozen: Child) -> None:
        """Let it go on until it has written down what became of its call."""
        before = rig.database.count("parcels_attempt")

        def recorded() -> bool:
            os.kill(frozen.pid, signal.SIGCONT)  # each of its threads freezes at its own passing
            return rig.database.count("parcels_attempt") > before

        rig.note("thawed")
        self.recorded += rig.wait_until(recorded, STARTING, every=0.05)
        rig.wait_until(lambda: recorded() and not rig.database.unfinished(), STARTING, every=0.05)
        frozen.kill()

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        wanted = self.dose.strikes
        return [
            Measure("times frozen", self.froze, str(wanted), self.froze == wanted),
            Measure("times thawed", self.recorded, str(wanted), self.recorded == wanted),
        ]


def _is_stopped(child: Child) -> bool:
    return psutil.Process(child.pid).status() == psutil.STATUS_STOPPED
