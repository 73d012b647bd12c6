"""F15: the front and the application reloaded while hundreds of clients are held."""

from __future__ import annotations

import time

from loadtests.deployment import reload
from loadtests.faults.fault import Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig


@register
class Reload(Fault):
    """A reload is an everyday thing: each held client is answered, or told 202 on the drain.

    Its control restarts the front by force, as a deployment does that knows no reload.
    """

    id = "F15"
    title = "front reload and app reload under holds"
    doses = {"short": Dose(80, 1), "full": Dose(2_500, 5)}
    strategy = "nginx-accel"
    environment = {"SIMULATOR_LATENCY_POSTNL": "2", "WORKER_CONCURRENCY": "300"}
    without = "graceful reload"
    reddens = "I6"

    def strike(self, rig: Rig) -> None:
        each = self.dose.requests // (2 * self.dose.strikes)
        for number in range(2 * self.dose.strikes):
            which = ("front", "app")[number % 2]
            wishes = rig.wishes(each, synchronous=1.0, carriers=("postnl",), prefix=f"r{number}")
            load = rig.send(wishes, at_once=each)
            rig.wait_until(lambda: rig.database.unfinished() >= each // 2, 10, every=0.05)
            if self.is_control and which == "front":
                rig.kill("front")
            else:
                rig.note(f"reload {which}: {reload(rig.stack, which)}")
            load.join()
            time.sleep(1)

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        reset = sum(told.status is None for told in journals.told)
        late = sum(told.status == 202 for told in journals.told)
        return [
            Measure("clients cut off", reset, "0", not reset),
            Measure("clients told 202", late, "-", True),
        ]
