"""F2: workers that kill themselves at each named point."""

from __future__ import annotations

from deploy.child import Child
from loadtests.faults.fault import Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig

POINTS = (
    "before_intent",
    "after_intent",
    "after_send",
    "after_reply",
    "before_commit",
    "after_commit",
    "after_notify",
)


@register
class KilledAtAPoint(Fault):
    """There is no instant at which a death loses or doubles anything."""

    id = "F2"
    title = "SIGKILL at each named point"
    doses = {"short": Dose(7 * 20, 2), "full": Dose(7 * 200, 8)}
    databases = ("postgresql", "sqlite")
    control = {"FAULT_GUARDS_OFF": "unknown"}
    deaths = 0

    def strike(self, rig: Rig) -> None:
        each = self.dose.requests // len(POINTS)
        for point in POINTS:
            rig.stack.kill("worker")
            every = max(1, each // self.dose.strikes)
            worker = rig.one_more("worker", env={"FAULT_CRASH_AT": f"{point}:{every}"})
            load = rig.send(rig.wishes(each, prefix=point), at_once=20)
            self.deaths += self._deaths(rig, worker, point)
            load.join()
            worker.kill()
        rig.stack.start("worker")

    def _deaths(self, rig: Rig, worker: Child, point: str) -> int:
        """Start the worker again after each of its deaths; return how many there were."""
        for death in range(self.dose.strikes):
            if not rig.wait_until(lambda: not worker.running, 10):
                return death
            rig.note(f"died at {point}")
            worker.start()
        return self.dose.strikes

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        return [Measure("deaths", self.deaths, "7 at least", self.deaths >= len(POINTS))]
