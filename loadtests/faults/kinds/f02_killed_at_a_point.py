"""F2: workers that kill themselves at each named point."""

from deploy.child import Child
from loadtests.faults.clients import Load
from loadtests.faults.fault import SOLD_TWICE, Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import MIX, Rig

POINTS = (
    "before_intent",
    "after_intent",
    "after_send",
    "after_reply",
    "before_commit",
    "after_commit",
    "after_notify",
)
# Passed once for all outcomes that are recorded together: on a busy machine that is twenty.
TOGETHER = POINTS[4:]

# Carriers that sell a repeated reference again.
DOUBLING = ("postnl", "meridian")


@register
class KilledAtAPoint(Fault):
    """There is no instant at which a death loses or doubles anything."""

    id = "F2"
    title = "SIGKILL at each named point"
    doses = {"short": Dose(7 * 16, 1), "full": Dose(7 * 200, 8)}
    databases = ("postgresql", "sqlite")
    controls = {"unknown": Control(SOLD_TWICE)}
    # Whose claimants have died again and again is taken for poison: some meet a death each time.
    may_review = 0.01

    def strike(self, rig: Rig) -> None:
        self.deaths: dict[str, int] = {}
        each = self.dose.requests // len(POINTS)
        # The control's guard matters where a label may have been bought and nobody wrote it down.
        for point in POINTS[2:5] if self.control else POINTS:
            rig.stack.kill("worker")
            every = 1 if point in TOGETHER else each // (self.dose.strikes + 1)
            worker = rig.one_more("worker", env={"FAULT_CRASH_AT": f"{point}:{every}"})
            carriers = DOUBLING if self.control else MIX
            load = rig.send(rig.wishes(each, carriers=carriers, prefix=point), at_once=20)
            self.deaths[point] = self._deaths(rig, worker, load)
            worker.kill()
            rig.stack.start("worker")
            load.join()

    def _deaths(self, rig: Rig, worker: Child, load: Load) -> int:
        """Start the worker again after each of its deaths; return how many there were."""

        def over() -> bool:
            return not worker.running or not (load.is_alive() or rig.database.unfinished())

        for death in range(self.dose.strikes):
            rig.wait_until(over, 60)
            if worker.running:
                return death
            rig.note(f"died at {load.wishes[0].intent}")
            worker.start()
        return self.dose.strikes

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        fewest = min(self.deaths.values())
        return [Measure("deaths at each point, the fewest", fewest, "1 at least", fewest >= 1)]
