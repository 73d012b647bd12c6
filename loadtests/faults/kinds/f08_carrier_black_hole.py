"""F8: one carrier hangs; the others must not notice."""

from __future__ import annotations

import time

from loadtests.faults.clients import Wish
from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig

OTHERS = ("postnl", "colibri", "meridian")


@register
class CarrierBlackHole(Fault):
    """Its bulkhead takes its own calls only, and its breaker opens within a window of 20."""

    id = "F8"
    title = "carrier black hole"
    doses = {"short": Dose(200, seconds=15), "full": Dose(1_000, seconds=60)}
    # Ten hang at once; of those who take their slots one by one, the tenth finds the breaker open.
    environment = {"CARRIER_BULKHEAD": "10", "WORKER_CONCURRENCY": "60"}
    controls = {
        "bulkhead": Control("others' p99 during, s"),
        "breaker": Control("purchases that the hanging carrier got"),
    }
    rest = 90.0
    bought = 0

    def strike(self, rig: Rig) -> None:
        half = self.dose.requests // 2
        rig.send(self._healthy(rig, half, "before"), at_once=8).join()
        rig.fault("tortoise", "hang", calls="all", seconds=3600)
        before = self._buys(rig)
        sick = rig.send(rig.wishes(100, carriers=("tortoise",), prefix="sick"), at_once=50)
        time.sleep(2)
        rig.send(self._healthy(rig, half, "during"), at_once=8).join()
        sick.join()
        time.sleep(max(0.0, self.dose.seconds - 10))
        self.bought = self._buys(rig) - before
        rig.heal()

    def _healthy(self, rig: Rig, count: int, prefix: str) -> list[Wish]:
        return rig.wishes(count, synchronous=1.0, carriers=OTHERS, prefix=prefix)

    def _buys(self, rig: Rig) -> int:
        """Return how often the carrier was asked for a label: probes and lookups buy nothing."""
        carriers = rig.simulator("GET", "/carriers")["carriers"]
        return int(next(each["buys"] for each in carriers if each["code"] == "tortoise"))

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        before, during = (p99(journals, prefix) for prefix in ("before", "during"))
        # A tenth over, and 0.1 s for what two cores add by themselves.
        limit = round(before * 1.1 + 0.1, 2)
        return [
            Measure("others' p99 before, s", before, "-", True),
            Measure("others' p99 during, s", during, f"{limit}", during <= limit),
            Measure("purchases that the hanging carrier got", self.bought, "20", self.bought <= 20),
        ]


def p99(journals: Journals, prefix: str) -> float:
    """Return the 99th percentile of the answers to intents with a prefix, in seconds."""
    waits = sorted(
        told.seconds or 999.0
        for told in journals.told
        if told.intent.partition(".")[2].startswith(prefix)
    )
    return round(waits[int(len(waits) * 0.99) - 1], 3)
