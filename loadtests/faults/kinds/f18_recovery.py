"""F18: a carrier comes back while thousands wait for it."""

import time

from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig

# Calls in flight at most: the shipped bulkhead, and the short dose's, which a part of it fills.
LIMITS = {"short": 40, "full": 400}
# Seconds at full scale: an open breaker lets nobody pass, then the rate rises (calls a second).
OPEN_FOR, RAMP_FOR, RAMP_FROM, RAMP_TO = 5.0, 10.0, 2.0, 50.0
# The share of the ramp after which the calls are counted, and what may be over for the moments
# between the closing, its being seen, and the count.
PART, SLACK = 0.25, 1.25


@register
class Recovery(Fault):
    """The backlog drains at a rising rate through the bulkhead; one probe at a time finds out.

    The carrier is slow: what the ramp lets out in its last seconds is more than the bulkhead holds.
    """

    id = "F18"
    title = "a breaker's recovery with a backlog"
    # Enough that without the ramp far more are due in its first quarter than it lets out.
    doses = {"short": Dose(240, seconds=8), "full": Dose(5_000, seconds=20)}
    short_environment = {"CARRIER_BULKHEAD": str(LIMITS["short"])}
    # A steeper ramp lets out more than two busy cores can send.
    short_scale = 1.0
    controls = {
        "bulkhead": Control("calls in flight, at most"),
        # With the shipped bulkhead: the short dose's would hold the calls back, too.
        "ramp": Control(
            "calls in the ramp's first quarter",
            {"FAULT_GUARDS_OFF": "ramp", "CARRIER_BULKHEAD": str(LIMITS["full"])},
        ),
    }
    rest = 900.0
    alone = True
    peak = probes = early = 0
    open_for = early_for = 0.0

    def strike(self, rig: Rig) -> None:
        rig.fault("tortoise", "error", when="before", calls="all", status=503)
        load = rig.send(rig.wishes(self.dose.requests, carriers=("tortoise",)), at_once=40)
        rig.wait_until(lambda: self._is_out(rig), 30, every=0.05)
        rig.note("breaker open, no call in flight")
        self._count_probes(rig)
        load.join()
        rig.heal()
        self._count_early(rig)
        rig.rest(self.rest * rig.scale)
        self.peak = rig.simulated("tortoise")["peak_in_flight"]

    def _count_probes(self, rig: Rig) -> None:
        """Count all that the carrier hears, from all processes, while its breaker is open."""
        before, begun = rig.simulated("tortoise")["calls"], time.monotonic()
        time.sleep(self.dose.seconds)
        self.probes = rig.simulated("tortoise")["calls"] - before
        self.open_for = time.monotonic() - begun
        rig.note(f"{self.probes} calls in {self.open_for:.2f} s")

    def _count_early(self, rig: Rig) -> None:
        """Count the purchases from the breaker's closing until a part of the ramp is over."""
        before = rig.simulated("tortoise")["buys"]
        rig.wait_until(lambda: self._mode(rig) == "closed", 30, every=0.05)
        begun = time.monotonic()
        time.sleep(PART * RAMP_FOR * rig.scale)
        self.early = rig.simulated("tortoise")["buys"] - before
        # With thousands on their way the count itself may come a second late.
        self.early_for = time.monotonic() - begun
        rig.note(f"{self.early} calls in the ramp's first {self.early_for:.2f} s")

    def _is_out(self, rig: Rig) -> bool:
        """Tell whether no purchase is under way any more, and none can begin."""
        return self._mode(rig) != "closed" and not rig.simulated("tortoise")["in_flight"]

    def _mode(self, rig: Rig) -> str:
        shown = rig.ask("/api/v2/carriers")["carriers"]
        return str(next(each["breaker"] for each in shown if each["code"] == "tortoise"))

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        limit = LIMITS["short" if self.dose is self.doses["short"] else "full"]
        # One at each end of the time, and one for each interval between.
        most = int(self.open_for / (OPEN_FOR * rig.scale)) + 1
        wanted = f"1 to {most} in {self.open_for:.0f} s"
        allowed = int(SLACK * (1 + let_out(self.early_for / (RAMP_FOR * rig.scale))))
        return [
            Measure("calls in flight, at most", self.peak, str(limit), self.peak <= limit),
            Measure("calls in the ramp's first quarter", self.early, str(allowed),
                    self.early <= allowed),
            Measure("calls while the breaker was open", self.probes, wanted,
                    1 <= self.probes <= most),
        ]  # fmt: skip


def let_out(share: float) -> float:
    """Return the calls that a share of the ramp lets out; the same at every scale."""
    seconds = share * RAMP_FOR
    slope = (RAMP_TO - RAMP_FROM) / RAMP_FOR
    return RAMP_FROM * seconds + slope * seconds**2 / 2
