"""F23: worker hosts whose clocks are two minutes apart."""

import time

from deploy.child import Child
from loadtests.faults.clocks import shifted_by
from loadtests.faults.fault import SOLD_TWICE, Control, Dose, Fault, register
from loadtests.faults.rig import Rig

# Seconds at full scale that a host's clock is off, before and behind.
SKEW = 60.0
# Seconds that a process may take to start.
STARTED = 90.0
# Seconds at full scale until a carrier that has said no books all the same: within the settling
# window of both (60 s), and over what is left of it by a clock that is 60 s before.
COMMIT, SHARE = 45.0, 0.3
CARRIERS = ("postnl", "meridian")


@register
class ClocksApart(Fault):
    """Ages are taken by the database's clock, which all hosts share.

    Two workers and the sweeper; the web's clock is right, as is the database's.
    """

    id = "F23"
    title = "clocks of worker hosts apart"
    doses = {"short": Dose(150), "full": Dose(500)}
    controls = {"clock": Control(SOLD_TWICE)}
    # The sweeper's rounds are a second long at any scale: two looks must fit before the booking.
    short_scale = 0.3

    def strike(self, rig: Rig) -> None:
        shifted = self._shift(rig)
        for carrier in CARRIERS:
            seconds = COMMIT * rig.scale
            rig.fault(carrier, "late_commit", seconds=seconds, share=SHARE, seed=rig.seed)
        carriers = (*CARRIERS, "colibri")
        rig.send(rig.wishes(self.dose.requests, synchronous=0.2, carriers=carriers)).join()
        rig.rest(self.rest * rig.scale + 10)
        rig.heal()
        time.sleep(COMMIT * rig.scale)  # the last bookings of carriers that were believed too early
        for child in shifted:
            child.stop()

    def _shift(self, rig: Rig) -> list[Child]:
        """Put two workers and a sweeper in the place of those whose clocks are right."""
        rig.stack.stop("worker", "sweeper")
        skew = SKEW * rig.scale
        hosts = (("worker", "before", skew), ("worker", "behind", -skew), ("sweeper", "", skew))
        shifted, ready = [], []
        for process, name, seconds in hosts:
            # A worker's ready file has its name; the other is left by the process that was stopped.
            ready.append(rig.stack.plan.run_dir / f"{name or process}.ready")
            ready[-1].unlink(missing_ok=True)
            changes = {"WORKER": name} if name else {}
            shifted.append(rig.one_more(process, env=shifted_by(seconds) | changes))
        rig.wait_until(lambda: all(file.exists() for file in ready), STARTED)
        return shifted
