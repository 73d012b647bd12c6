"""F6: PostgreSQL stopped as by a crash, and started again."""

from __future__ import annotations

import time

from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import MIX, Rig

# Seconds, over the pool's time-out.
AWAY = 17.0
# Carriers that sell a repeated reference again: few calls are under way at the moment of the crash,
# and each must be one that can be doubled.
DOUBLING = ("postnl", "meridian")


@register
class PostgresqlCrash(Fault):
    """No 2xx without a committed row; what was under way is found again by the sweeper.

    Its control loses the carriers' answers that come meanwhile: an unknown that is bought again. A
    restart takes half a second, and whoever has an answer to write waits for 15 s (the pool's
    time-out): the control's database stays away for longer.
    """

    id = "F6"
    title = "PostgreSQL immediate restart"
    doses = {"short": Dose(300, 1), "full": Dose(10_000, 3)}
    controls = {"unknown": Control("I2")}
    rest = 90.0

    def strike(self, rig: Rig) -> None:
        carriers = DOUBLING if self.control else MIX
        wishes = rig.wishes(self.dose.requests, synchronous=0.2, carriers=carriers)
        load = rig.send(wishes, at_once=40)
        for _ in range(self.dose.strikes):
            rig.wait_until(lambda: rig.database.unfinished() > 10, 10, every=0.05)
            time.sleep(rig.rng.uniform(0.2, 1.0))
            rig.note("postgresql: immediate restart")
            rig.cluster.stop("immediate")
            time.sleep(AWAY if self.control else 0)
            rig.cluster.start()
            time.sleep(2)
        load.join()

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        failed = sum(not told.acknowledged for told in journals.told)
        share = round(failed / len(journals.told), 4)
        return [Measure("share of requests refused meanwhile", share, "under 0.5", share < 0.5)]
