"""F18: a carrier comes back while thousands wait for it."""

from __future__ import annotations

from loadtests.faults.fault import Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig

LIMIT = 10


@register
class Recovery(Fault):
    """The backlog drains at a rising rate through the bulkhead; one probe at a time finds out."""

    id = "F18"
    title = "a breaker's recovery with a backlog"
    doses = {"short": Dose(200, seconds=6), "full": Dose(5_000, seconds=20)}
    environment = {"CARRIER_BULKHEAD": str(LIMIT), "WORKER_CONCURRENCY": "60"}
    control = {"CARRIER_BULKHEAD": "1000", "CARRIER_BREAKER_RAMP_FROM": "1000",
               "CARRIER_BREAKER_RAMP_TO": "1000"}  # fmt: skip
    without = "bulkhead and ramp"
    reddens = "targets"
    rest = 600.0
    peak = 0

    def strike(self, rig: Rig) -> None:
        rig.fault("postnl", "error", when="before", calls="all", status=503)
        wishes = rig.wishes(self.dose.requests, carriers=("postnl",))
        rig.send(wishes, at_once=40).join()
        rig.wait_until(lambda: False, self.dose.seconds)
        rig.heal()
        rig.rest(self.rest)
        carriers = rig.simulator("GET", "/carriers")["carriers"]
        self.peak = next(each["peak_in_flight"] for each in carriers if each["code"] == "postnl")

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        met = self.peak <= LIMIT
        return [
            Measure("calls in flight, at most", self.peak, f"{LIMIT}, one of them a probe", met)
        ]
