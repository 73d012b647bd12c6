"""F4: Redis killed, and with it the queue, the hub's news and the guards' counts."""

import time
from datetime import UTC, datetime

from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig


@register
class RedisKilled(Fault):
    """The rows are the truth: the sweeper wakes what the broker has lost."""

    id = "F4"
    title = "Redis SIGKILL without persistence"
    doses = {"short": Dose(300, 2), "full": Dose(5_000, 5)}
    controls = {"sweeper": Control("I3", environment={})}
    resumed = 0.0

    def strike(self, rig: Rig) -> None:
        if self.control:
            rig.stack.stop("sweeper")
        load = rig.send(rig.wishes(self.dose.requests, synchronous=0.3), at_once=40)
        for _ in range(self.dose.strikes):
            rig.wait_for_work(load)
            time.sleep(rig.rng.uniform(0.2, 1.0))
            rig.kill_broker()
            self._wait_for_progress(rig)
        load.join()

    def _wait_for_progress(self, rig: Rig) -> None:
        """Measure the seconds until a worker claims something that it was not at before."""
        back = datetime.now(UTC)

        def claimed() -> bool:
            latest = rig.database.ask("SELECT max(claimed_at) FROM parcels_announcement")[0][0]
            return bool(latest and latest > back) or not rig.database.unfinished()

        rig.wait_until(claimed, 20, every=0.1)
        self.resumed = max(self.resumed, (datetime.now(UTC) - back).total_seconds())

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        resumed = round(self.resumed, 1)
        return [Measure("seconds until work resumed, at most", resumed, "10", resumed <= 10)]
