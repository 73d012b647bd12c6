"""F24: Redis answers nothing for minutes, and has lost nothing when it returns."""

import time

from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import MIX, Rig

# Seconds at full scale: so slow that the sweeper's own calls, 32 at once, leave most rows waiting.
SLOW = 25.0
# Seconds at full scale from its return until all rows have ended, and the least that two cores need
# for a backlog.
RESUMED, LEAST = 60.0, 20.0
# Share of the rows that must still wait at its return, or the run has shown nothing.
WAITING = 0.05


@register
class RedisAway(Fault):
    """A wake-up that was not delivered is not taken for one that was.

    The same Redis returns: nothing tells the sweeper that its messages never arrived but that it
    could not send them.
    """

    id = "F24"
    title = "Redis away for minutes, with rows as old as that"
    # Seconds at full scale.
    doses = {"short": Dose(600, seconds=450), "full": Dose(2_000, seconds=600)}
    controls = {"wake": Control("seconds from its return until all have ended")}
    alone = True
    waiting = 0
    resumed = 0.0

    def strike(self, rig: Rig) -> None:
        for carrier in MIX:
            rig.simulator.set_latency(carrier, {"fixed": SLOW * rig.scale})
        rig.note("SIGSTOP redis")
        rig.stack.pause("redis")
        begun = time.monotonic()
        load = rig.send(rig.wishes(self.dose.requests), at_once=40)
        load.join()
        time.sleep(max(0.0, begun + self.dose.seconds * rig.scale - time.monotonic()))
        for carrier in MIX:
            rig.simulator.set_latency(carrier, {"fixed": 0.02})
        self.waiting = rig.database.unfinished()
        rig.note(f"SIGCONT redis, {self.waiting} rows wait")
        rig.stack.resume("redis")
        back = time.monotonic()
        rig.rest(2 * max(LEAST, RESUMED * rig.scale))
        self.resumed = time.monotonic() - back

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        resumed, limit = round(self.resumed, 1), max(LEAST, RESUMED * rig.scale)
        least = int(WAITING * self.dose.requests)
        return [
            Measure("rows that waited for its return", self.waiting, f"{least} at least",
                    self.waiting >= least),
            Measure("seconds from its return until all have ended", resumed, f"{limit:g}",
                    resumed <= limit),
        ]  # fmt: skip
