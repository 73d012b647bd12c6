"""F26: two carriers hang at once; the others must not notice."""

from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.kinds.f08_carrier_black_hole import compared, fix_latency, healthy
from loadtests.faults.rig import Rig

HANGING = ("tortoise", "lantern")
# Requests for both together: over two shipped bulkheads, and over the threads of the control, which
# are as many as one carrier's bulkhead and a quarter.
BACKLOG, THREADS = 900, 500
# Seconds between two looks at how many calls hang; equal ones mean that no more begin.
STEADY = 1.0


@register
class TwoHang(Fault):
    """Two bulkheads full of calls that hang leave the worker room for the others' calls.

    The shipped bulkheads, deadline and concurrency. The backlog of both begins at once, as after a
    deploy, and the others are measured while the carriers hang.
    """

    id = "F26"
    title = "two carriers hang at once, shipped bulkheads"
    doses = {"short": Dose(200), "full": Dose(1_000)}
    controls = {
        "threads": Control(
            "others' p99 during, s", environment={"WORKER_CONCURRENCY": str(THREADS)}
        )
    }
    # Two full bulkheads take seconds to begin, whatever the scale: they must hang for longer.
    short_scale = 0.5
    alone = True
    hanging = 0

    def strike(self, rig: Rig) -> None:
        half = self.dose.requests // 2
        fix_latency(rig)
        rig.send(healthy(rig, half, "before"), at_once=8).join()
        for carrier in HANGING:
            rig.fault(carrier, "hang", calls="all", seconds=3600)
        rig.stack.stop("worker")
        rig.send(rig.wishes(BACKLOG, carriers=HANGING, prefix="sick"), at_once=40).join()
        rig.stack.start("worker")
        self._wait_until_steady(rig)
        rig.send(healthy(rig, half, "during"), at_once=8).join()
        rig.heal()

    def _wait_until_steady(self, rig: Rig) -> None:
        """Wait until as many calls hang as will."""

        def steady() -> bool:
            before = self.hanging
            self.hanging = sum(rig.simulated(code)["in_flight"] for code in HANGING)
            return 0 < self.hanging <= before

        rig.wait_until(steady, 60, every=STEADY)
        rig.note(f"{self.hanging} calls hang")

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        return [
            Measure("calls that hung, at most", self.hanging, f"over {THREADS}",
                    self.hanging > THREADS),
            *compared(journals, "others'", 1.2),
        ]  # fmt: skip
