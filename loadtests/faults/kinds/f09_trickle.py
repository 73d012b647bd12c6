"""F9: a carrier that answers one byte a second."""

from loadtests.faults.fault import (
    SOLD_TWICE,
    STARTING,
    Control,
    Dose,
    Fault,
    Measure,
    register,
)
from loadtests.faults.journals import Journals
from loadtests.faults.rig import DEADLINE, Rig

SPREAD = 0.5
CUT = "parcels_attempt WHERE kind = 'announce' AND outcome = 'unknown'"


@register
class Trickle(Fault):
    """Each read is quick and the whole would take hours: only a total deadline ends it."""

    id = "F9"
    title = "carrier answers one byte a second"
    doses = {"short": Dose(40), "full": Dose(200)}
    # The breaker would keep the carrier from most of the calls that are to be cut.
    environment = {"CARRIER_BREAKER_WINDOW": "100000", "CARRIER_BREAKER_MIN_CALLS": "100000"}
    controls = {"deadline": Control("calls cut"), "unknown": Control(SOLD_TWICE)}

    def strike(self, rig: Rig) -> None:
        rig.fault("postnl", "trickle", interval=rig.scale, calls="buy")
        rig.send(rig.wishes(self.dose.requests, carriers=("postnl",)), at_once=20).join()
        rig.wait_until(
            lambda: rig.database.count(CUT) >= self.dose.requests,
            2 * DEADLINE * rig.scale + STARTING,
        )
        rig.heal()

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        deadline = DEADLINE * rig.scale
        durations = [
            attempt.duration
            for attempt in journals.attempts
            if (attempt.kind, attempt.outcome) == ("announce", "unknown")
        ]
        worst = max((abs(each - deadline) for each in durations), default=99.0)
        return [
            Measure("calls cut", len(durations), "all", len(durations) >= self.dose.requests),
            Measure("farthest from the deadline, s", round(worst, 3), f"{SPREAD}", worst <= SPREAD),
        ]
