"""F20: carriers that answer after the call's deadline, having sold the label all the same."""

from collections.abc import Sequence

from loadtests.faults.clients import METHODS, Wish
from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.invariants import bought_once, sold_twice
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig

# Seconds at full scale: over the call's deadline of 30 s, within what each carrier promises (30 s
# after we have left); and over its promise and its settling window, so that only a late look finds
# the second label.
SLOW, SLOWER, SLOWEST = 40.0, 55.0, 200.0
# Carriers whose list shows every label under a reference.
LISTING = ("postnl", "tortoise")
# Seconds at full scale, from the end: the first late look comes after ten minutes.
LATE_LOOK = 700.0


@register
class SlowerThanDeadline(Fault):
    """The settling window counts from the end of a call, not from its begin.

    Each parcel's first call is slow, at every kind of carrier. A few of the full dose are slower
    than their carrier promises: these are sold twice, and the second label is voided by us.
    """

    id = "F20"
    title = "a carrier slower than the call's deadline"
    doses = {"short": Dose(100, strikes=0), "full": Dose(300, strikes=10)}
    # A parcel that is on its way can't be cancelled: its second label would be left to a person.
    environment = {"SIMULATOR_TRACKING_STEP": "0"}
    controls = {"settling": Control("I2")}
    sells_twice = True
    # The sweeper's rounds are a second long at any scale: two looks must fit in between.
    short_scale = 0.3

    def strike(self, rig: Rig) -> None:
        slowest = self.dose.strikes
        usual = self.dose.requests - slowest
        wishes = [
            *_slow(rig, usual // 2, SLOW, tuple(METHODS)),
            *_slow(rig, usual - usual // 2, SLOWER, tuple(METHODS)),
            *_slow(rig, slowest, SLOWEST, LISTING),
        ]
        rig.send(wishes, at_once=20).join()
        rig.rest(self.rest * rig.scale)
        if slowest:
            longest = (SLOWEST + LATE_LOOK) * rig.scale
            rig.wait_until(lambda: len(sold_twice(rig.journals())) >= slowest, longest, every=5)
            rig.wait_until(lambda: bought_once(rig.journals()).holds, longest, every=5)

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        twice, slowest = len(sold_twice(journals)), self.dose.strikes
        return [Measure("sold twice by the slowest", twice, f"{slowest}", twice == slowest)]


def _slow(rig: Rig, count: int, seconds: float, carriers: Sequence[str]) -> list[Wish]:
    company = {"company_name": f"SIM:SLOW:{seconds * rig.scale:g}"}
    return rig.wishes(count, carriers=carriers, fields=company, prefix=f"slow{seconds:g}")
