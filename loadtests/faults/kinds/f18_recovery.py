"""F18: a carrier comes back while thousands wait for it."""

from __future__ import annotations

import time

from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig

LIMIT = 10
# Seconds at full scale that an open breaker lets nobody pass (CARRIER_BREAKER_OPEN_FOR).
OPEN_FOR = 5.0


@register
class Recovery(Fault):
    """The backlog drains at a rising rate through the bulkhead; one probe at a time finds out."""

    id = "F18"
    title = "a breaker's recovery with a backlog"
    doses = {"short": Dose(200, seconds=6), "full": Dose(5_000, seconds=20)}
    environment = {"CARRIER_BULKHEAD": str(LIMIT), "WORKER_CONCURRENCY": "60"}
    controls = {
        "bulkhead": Control("calls in flight, at most"),
        "ramp": Control("seconds of the ramp"),
    }
    rest = 600.0
    peak = probes = 0
    open_for = 0.0

    def strike(self, rig: Rig) -> None:
        rig.fault("postnl", "error", when="before", calls="all", status=503)
        wishes = rig.wishes(self.dose.requests, carriers=("postnl",))
        load = rig.send(wishes, at_once=40)
        rig.wait_until(lambda: self._is_out(rig), 30, every=0.05)
        rig.note("breaker open, no call in flight")
        self._count_probes(rig)
        load.join()
        rig.heal()
        rig.rest(self.rest)
        self.peak = self._simulated(rig)["peak_in_flight"]

    def _count_probes(self, rig: Rig) -> None:
        """Count all that the carrier hears, from all processes, while its breaker is open."""
        before, begun = self._simulated(rig)["calls"], time.monotonic()
        time.sleep(self.dose.seconds)
        self.probes = self._simulated(rig)["calls"] - before
        self.open_for = time.monotonic() - begun
        rig.note(f"{self.probes} calls in {self.open_for:.2f} s")

    def _is_out(self, rig: Rig) -> bool:
        """Tell whether no purchase is under way any more, and none can begin."""
        shown = rig.ask("/api/v2/carriers")["carriers"]
        mode = next(each["breaker"] for each in shown if each["code"] == "postnl")
        return mode != "closed" and not self._simulated(rig)["in_flight"]

    def _simulated(self, rig: Rig) -> dict[str, int]:
        carriers = rig.simulator("GET", "/carriers")["carriers"]
        postnl: dict[str, int] = next(each for each in carriers if each["code"] == "postnl")
        return postnl

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        # One at each end of the time, and one for each interval between.
        most = int(self.open_for / (OPEN_FOR * rig.scale)) + 1
        wanted = f"1 to {most} in {self.open_for:.0f} s"
        return [
            Measure("calls in flight, at most", self.peak, str(LIMIT), self.peak <= LIMIT),
            Measure("calls while the breaker was open", self.probes, wanted,
                    1 <= self.probes <= most),
        ]  # fmt: skip
