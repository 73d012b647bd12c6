"""F9: a carrier that answers one byte a second."""

from __future__ import annotations

from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig

DEADLINE, SPREAD = 3.0, 0.5


@register
class Trickle(Fault):
    """Each read is quick and the whole would take hours: only a total deadline ends it."""

    id = "F9"
    title = "carrier answers one byte a second"
    doses = {"short": Dose(40), "full": Dose(200)}
    # The breaker would keep the carrier from most of the calls that are to be cut.
    environment = {"CARRIER_BREAKER_WINDOW": "100000", "CARRIER_BREAKER_MIN_CALLS": "100000"}
    controls = {"deadline": Control("calls cut"), "unknown": Control("I2")}

    def strike(self, rig: Rig) -> None:
        rig.fault("postnl", "trickle", interval=1, calls="buy")
        rig.send(rig.wishes(self.dose.requests, carriers=("postnl",)), at_once=20).join()
        rig.wait_until(lambda: _cut(rig) >= self.dose.requests, 40)
        rig.heal()

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        rows = rig.database.ask(
            "SELECT duration FROM parcels_attempt WHERE kind = 'announce' AND outcome = 'unknown'"
        )
        durations = [float(row[0]) for row in rows]
        worst = max((abs(each - DEADLINE) for each in durations), default=99.0)
        return [
            Measure("calls cut", len(durations), "all", len(durations) >= self.dose.requests),
            Measure("farthest from the deadline, s", round(worst, 3), f"{SPREAD}", worst <= SPREAD),
        ]


def _cut(rig: Rig) -> int:
    return int(
        rig.database.ask("SELECT count(*) FROM parcels_attempt WHERE outcome = 'unknown'")[0][0]
    )
