"""F3: a worker frozen between claim and send for longer than its lease, then thawed."""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from deploy.child import Child
from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig

# Of 3 s deadline: 7.5 s of lease. Then the absence is looked at twice after 4 s of settling.
FROZEN = 18.0
# The call's own deadline has passed after the thaw, too, and cuts the connection before or after
# the purchase's first bytes, as it happens: the control's frozen worker goes without it.
PATIENT = {"CARRIER_CALL_DEADLINE": "120", "ANNOUNCEMENT_LEASE": "7.5"}


@register
class Frozen(Fault):
    """Thawed just before a purchase's first byte, it must find that its time is over."""

    id = "F3"
    title = "SIGSTOP longer than the lease between claim and send"
    doses = {"short": Dose(60, 2), "full": Dose(200, 6)}
    environment = {"WORKER_CONCURRENCY": "20"}
    controls = {"send_guard": Control("I2"), "fence": Control("I4")}
    froze = 0

    def strike(self, rig: Rig) -> None:
        each = self.dose.requests // self.dose.strikes
        rig.stack.stop("worker")
        for strike in range(self.dose.strikes):
            freezing = {"FAULT_PAUSE_AT": f"before_send:{each // 4}"}
            if self.control:
                freezing |= PATIENT
            frozen = rig.one_more("worker", env=freezing)
            load = rig.send(rig.wishes(each, carriers=("postnl", "meridian"), prefix=f"s{strike}"))
            if rig.wait_until(partial(_is_stopped, frozen), 30):
                self.froze += 1
                rig.note("frozen by itself before a send")
            rig.stack.start("worker")  # another goes on
            time.sleep(FROZEN)
            # On a busy machine the other has not taken all over by then, and what nobody has bought
            # again can't be bought twice.
            rig.wait_until(lambda: not rig.database.unfinished(), 45)
            os.kill(frozen.pid, signal.SIGCONT)
            rig.note("thawed")
            load.join()
            rig.wait_until(lambda: not rig.database.unfinished(), 30)
            frozen.kill()
            rig.stack.stop("worker")
        rig.stack.start("worker")

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        wanted = self.dose.strikes
        return [Measure("times frozen", self.froze, str(wanted), self.froze == wanted)]


def _is_stopped(child: Child) -> bool:
    with open(f"/proc/{child.pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"
