"""F1: workers killed at random."""

import time

from loadtests.faults.fault import SOLD_TWICE, Control, Dose, Fault, register
from loadtests.faults.rig import MIX, Rig


@register
class WorkerKilled(Fault):
    """What was sent and never recorded is reconciled; what was not sent is sent again."""

    id = "F1"
    title = "SIGKILL of workers at random"
    doses = {"short": Dose(300, 3), "full": Dose(10_000, 30)}
    databases = ("postgresql", "sqlite")
    controls = {"unknown": Control(SOLD_TWICE)}

    def strike(self, rig: Rig) -> None:
        # The slow one's calls are under way all the time.
        carriers = (*MIX, "tortoise")
        wishes = rig.wishes(self.dose.requests, synchronous=0.2, carriers=carriers)
        load = rig.send(wishes, at_once=40)
        for _ in range(self.dose.strikes):
            rig.wait_for_work(load)
            time.sleep(rig.rng.uniform(0.1, 1.0))
            rig.kill("worker")
        load.join()
