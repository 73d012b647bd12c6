"""F6: PostgreSQL stopped as by a crash, and started again."""

import signal
import time

from loadtests.faults.fault import SOLD_TWICE, Control, Dose, Fault, register
from loadtests.faults.rig import MIX, Rig

# Seconds. A restart takes half a second; an answer that comes meanwhile waits 15 s for the database
# (the pool's time-out), and is lost when it stays away for longer. The last strike's does.
AWAY = 17.0
# Seconds: an immediate stop takes a moment.
STOP_SECONDS = 20.0
# Ten seconds at full scale, and so many calls of it at least.
SLOW = "tortoise"
UNDER_WAY = 3


@register
class PostgresqlCrash(Fault):
    """No 2xx without a committed row; what was under way is found again by the sweeper."""

    id = "F6"
    title = "PostgreSQL immediate restart"
    may_refuse = 0.1
    doses = {"short": Dose(300, 1), "full": Dose(10_000, 3)}
    controls = {"unknown": Control(SOLD_TWICE)}

    def strike(self, rig: Rig) -> None:
        carriers = (*MIX, SLOW)
        wishes = rig.wishes(self.dose.requests, synchronous=0.2, carriers=carriers)
        load = rig.send(wishes, at_once=40)
        for left in reversed(range(self.dose.strikes)):
            # Its calls are under way at the moment of the crash: their answers are lost.
            rig.wait_until(
                lambda: rig.simulated(SLOW)["in_flight"] >= UNDER_WAY or not load.is_alive(), 10
            )
            time.sleep(rig.rng.uniform(0.0, 3.0) * rig.scale)
            rig.note("postgresql: immediate restart")
            rig.cluster.child.signal(signal.SIGQUIT, leader_only=True)  # as `-m immediate`
            rig.cluster.child.wait(STOP_SECONDS)
            time.sleep(0 if left else AWAY)
            rig.cluster.start()
            time.sleep(2)
        load.join()
