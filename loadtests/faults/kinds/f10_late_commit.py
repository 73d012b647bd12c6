"""F10: carriers that say no, book all the same a while later, and list it later still."""

from __future__ import annotations

import time

from loadtests.faults.fault import SOLD_TWICE, Control, Dose, Fault, register
from loadtests.faults.rig import Rig

# Both have a settling window of 60 s (carriers.adapters); a test holds this to be true.
CARRIERS, WINDOW = ("postnl", "meridian"), 60.0
# Seconds at full scale, after the end of the call: the booking comes in the middle of the window,
# and is listed before its end.
COMMIT, LAG = WINDOW / 2, WINDOW / 4


@register
class LateCommit(Fault):
    """An absence is believed after the settling window, and only when it was seen twice."""

    id = "F10"
    title = "carrier commits late, lookup lags"
    doses = {"short": Dose(300), "full": Dose(2_000)}
    controls = {"settling": Control(SOLD_TWICE)}
    # A share of the full dose's 2 % in 300 would be six: not enough to be sure of the control.
    shares = {300: 0.1, 2_000: 0.02}

    def strike(self, rig: Rig) -> None:
        commit, lag = COMMIT * rig.scale, LAG * rig.scale
        share = self.shares[self.dose.requests]
        for carrier in CARRIERS:
            rig.simulator("PUT", f"/carriers/{carrier}", {"lookup_lag": lag})
            rig.fault(carrier, "late_commit", seconds=commit, share=share, seed=rig.seed)
        rig.send(rig.wishes(self.dose.requests, carriers=CARRIERS)).join()
        # Without its guard all rows may have ended before the last booking.
        time.sleep(commit + lag + 1)
