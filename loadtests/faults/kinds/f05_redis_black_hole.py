"""F5: a Redis that takes connections and never answers."""

import time
from dataclasses import replace

from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig

# Seconds that each synchronous client prefers to wait at most, and what may be added to it.
WAIT, GRACE = 10, 1.0


@register
class RedisBlackHole(Fault):
    """Everything that asks Redis has a time-out, and an answer without it."""

    id = "F5"
    title = "Redis black hole"
    doses = {"short": Dose(200, seconds=10), "full": Dose(2_000, seconds=30)}
    controls = {"sweeper": Control("I3", environment={})}
    alone = True

    def strike(self, rig: Rig) -> None:
        if self.control:
            rig.stack.stop("sweeper")
        wishes = rig.wishes(self.dose.requests, synchronous=0.5)
        prefer = {"Prefer": f"wait={WAIT}"}
        load = rig.send([replace(wish, headers=prefer) for wish in wishes], at_once=40)
        time.sleep(1)
        rig.note("SIGSTOP redis")
        rig.stack.pause("redis")
        time.sleep(self.dose.seconds)
        rig.note("SIGCONT redis")
        rig.stack.resume("redis")
        load.join()

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        slowest = max((told.seconds or 999.0) for told in journals.told)
        limit = WAIT + GRACE
        return [Measure("slowest answer, s", round(slowest, 2), f"{limit}", slowest <= limit)]
