"""F10: carriers that say no, book all the same a while later, and list it later still."""

from __future__ import annotations

import time

from loadtests.faults.fault import Control, Dose, Fault, register
from loadtests.faults.rig import Rig

# Seconds until the booking, and until a lookup shows it: together under the window.
COMMIT, LAG, WINDOW = 7.0, 2.0, 12
# The control's: over what its two looks take with a window of 0.5 s on a busy machine.
CONTROL_COMMIT = 15.0


@register
class LateCommit(Fault):
    """An absence is believed after the settling window, and only when it was seen twice."""

    id = "F10"
    title = "carrier commits late, lookup lags"
    doses = {"short": Dose(300), "full": Dose(2_000)}
    environment = {"CARRIER_SETTLING": str(WINDOW)}
    controls = {"settling": Control("I2")}
    # A share of the full dose's 2 % in 300 would be six: not enough to be sure of the control.
    shares = {300: 0.1, 2_000: 0.02}

    def strike(self, rig: Rig) -> None:
        commit = CONTROL_COMMIT if self.control else COMMIT
        share = self.shares[self.dose.requests]
        for carrier in ("postnl", "meridian"):
            rig.simulator("PUT", f"/carriers/{carrier}", {"lookup_lag": LAG})
            rig.fault(carrier, "late_commit", seconds=commit, share=share, seed=rig.seed)
        rig.send(rig.wishes(self.dose.requests, carriers=("postnl", "meridian"))).join()
        if self.control:
            time.sleep(commit + 1)  # all rows may have ended long before the last booking
