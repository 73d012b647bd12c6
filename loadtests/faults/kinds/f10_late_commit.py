"""F10: carriers that say no, book all the same a while later, and list it later still."""

import time

from loadtests.faults.fault import SOLD_TWICE, Control, Dose, Fault, register
from loadtests.faults.rig import Rig

# Both have a settling window of 60 s (carriers.adapters); a test holds this to be true.
CARRIERS, WINDOW = ("postnl", "meridian"), 60.0
# Seconds at full scale, after the end of the call: the booking comes in the middle of the window,
# and is listed shortly before its end.
COMMIT, LAG = WINDOW / 2, 0.4 * WINDOW


@register
class LateCommit(Fault):
    """An absence is believed after the settling window, and only when it was seen twice."""

    id = "F10"
    title = "carrier commits late, lookup lags"
    doses = {"short": Dose(300), "full": Dose(2_000)}
    # So many failures in the short dose would open a breaker now and then, and nothing is bought.
    short_environment = {"CARRIER_BREAKER_WINDOW": "100000", "CARRIER_BREAKER_MIN_CALLS": "100000"}
    controls = {"settling": Control(SOLD_TWICE)}
    # At a tenth a busy machine looks for the first time when the booking is listed already.
    short_scale = 0.25
    # The full dose's 2 % of 300 would be six. Without its guard an absence is believed after two
    # looks at random moments: not all of them come before the booking is listed.
    shares = {300: 0.3, 2_000: 0.02}

    def strike(self, rig: Rig) -> None:
        commit, lag = COMMIT * rig.scale, LAG * rig.scale
        share = self.shares[self.dose.requests]
        for carrier in CARRIERS:
            rig.simulator.set_lookup_lag(carrier, lag)
            rig.fault(carrier, "late_commit", seconds=commit, share=share, seed=rig.seed)
        rig.send(rig.wishes(self.dose.requests, carriers=CARRIERS)).join()
        # Without its guard all rows may have ended before the last booking.
        time.sleep(commit + lag + 1)
