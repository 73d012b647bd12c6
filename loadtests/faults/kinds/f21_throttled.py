"""F21: carriers that answer 429, with Retry-After and without it."""

import time

from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import MIX, Rig

# Calls a second at full scale into a gate that is closed.
TRICKLE = 1.0
# Seconds at full scale that one carrier asks for; another asks for a second, a third says nothing.
RETRY_AFTER = 30.0
# Seconds until those have answered that were called before the first 429 came back.
IN_FLIGHT = 2.0


@register
class Throttled(Fault):
    """A 429 closes a gate for that carrier: its backlog waits there, and is not tried row by row.

    Nothing was made, so nothing fails; when the carrier sells again, all of it is announced.
    """

    id = "F21"
    title = "429 with and without Retry-After"
    # Seconds at full scale.
    doses = {"short": Dose(300, seconds=200), "full": Dose(2_000, seconds=600)}
    controls = {"gate": Control("calls a second into a closed gate, at most")}
    rest = 600.0
    rate = 0.0

    def strike(self, rig: Rig) -> None:
        asked = max(1, round(RETRY_AFTER * rig.scale))
        rig.fault("postnl", "throttle", retry_after=asked)
        rig.fault("colibri", "throttle", retry_after=None)
        rig.fault("meridian", "throttle", retry_after=1)
        begun = time.monotonic()
        load = rig.send(rig.wishes(self.dose.requests), at_once=40)
        rig.wait_until(lambda: all(_buys(rig).values()), 30, every=0.1)
        time.sleep(IN_FLIGHT)
        before, counted = _buys(rig), time.monotonic()
        time.sleep(max(5.0, begun + self.dose.seconds * rig.scale - counted))
        seconds, after = time.monotonic() - counted, _buys(rig)
        # One at each end of the time.
        self.rate = max((after[code] - before[code] - 1) / seconds for code in MIX)
        rig.note(
            f"calls in {seconds:.1f} s: { {code: after[code] - before[code] for code in MIX} }"
        )
        load.join()
        rig.heal()

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        rate, limit = round(self.rate, 2), TRICKLE / rig.scale
        failed = sum(row.state == "failed" for row in journals.announcements)
        return [
            Measure(
                "calls a second into a closed gate, at most", rate, f"{limit:g}", rate <= limit
            ),
            Measure("failed", failed, "0", not failed),
        ]


def _buys(rig: Rig) -> dict[str, int]:
    return {code: rig.simulated(code)["buys"] for code in MIX}
