"""F1: workers killed at random."""

from __future__ import annotations

import time

from loadtests.faults.fault import Control, Dose, Fault, register
from loadtests.faults.rig import Rig


@register
class WorkerKilled(Fault):
    """What was sent and never recorded is reconciled; what was not sent is sent again."""

    id = "F1"
    title = "SIGKILL of workers at random"
    doses = {"short": Dose(300, 3), "full": Dose(10_000, 30)}
    databases = ("postgresql", "sqlite")
    controls = {"unknown": Control("I2")}

    def strike(self, rig: Rig) -> None:
        load = rig.send(rig.wishes(self.dose.requests, synchronous=0.2), at_once=40)
        for _ in range(self.dose.strikes):
            # Into the middle of the work: calls of 0.3 s are under way all the time.
            rig.wait_until(lambda: rig.database.unfinished() > 10, 10, every=0.05)
            time.sleep(rig.rng.uniform(0.1, 1.0))
            rig.kill("worker")
        load.join()
