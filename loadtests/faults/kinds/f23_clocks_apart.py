"""F23: worker hosts whose clocks are two minutes apart."""

from __future__ import annotations

import time

from loadtests.faults.clocks import shifted_by
from loadtests.faults.fault import SOLD_TWICE, Control, Dose, Fault, register
from loadtests.faults.rig import Rig

# Seconds at full scale that a host's clock is off, before and behind.
SKEW = 60.0
# Seconds at full scale until a carrier that has said no books all the same: within the settling
# window of both (60 s), and over what is left of it by a clock that is 60 s before.
COMMIT, SHARE = 45.0, 0.2
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
        skew = SKEW * rig.scale
        before, behind = shifted_by(skew), shifted_by(-skew)
        rig.stack.stop("worker", "sweeper")
        shifted = [
            rig.one_more("worker", env=before),
            rig.one_more("worker", env=behind),
            rig.one_more("sweeper", env=before),
        ]
        for carrier in CARRIERS:
            seconds = COMMIT * rig.scale
            rig.fault(carrier, "late_commit", seconds=seconds, share=SHARE, seed=rig.seed)
        carriers = (*CARRIERS, "colibri")
        rig.send(rig.wishes(self.dose.requests, synchronous=0.2, carriers=carriers)).join()
        rig.heal()
        rig.rest(self.rest * rig.scale + 10)
        time.sleep(COMMIT * rig.scale)  # the last bookings of carriers that were believed too early
        for child in shifted:
            child.stop()

    def tidy(self, rig: Rig) -> None:
        rig.stack.start("worker", "sweeper")
