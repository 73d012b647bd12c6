"""F8: one carrier hangs; the others must not notice."""

import time

from loadtests.faults.clients import Wish
from loadtests.faults.fault import STARTING, Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import DEADLINE, Rig
from loadtests.metrics import percentile

OTHERS = ("postnl", "colibri", "meridian")
# Requests for the hanging carrier: more than its bulkhead holds. As many come before it hangs, so
# that the others are compared under the same load, and half as many afterwards.
SICK = {"short": 100, "full": 600}
# Time-outs that open a breaker (CARRIER_BREAKER_MIN_CALLS), and purchases that may leave before the
# tenth is written down.
OPENING, SLACK = 10, 5
# Seconds at full scale that each call of the others takes: drawn ones differ by more between two
# batches of calls than what is measured here.
LATENCY = 1.0
TIMED_OUT = (
    "parcels_attempt t JOIN parcels_announcement a ON a.id = t.announcement_id"
    " WHERE a.carrier = 'tortoise' AND t.outcome = 'unknown'"
)


@register
class CarrierBlackHole(Fault):
    """Its bulkhead takes its own calls only, and its breaker opens with the tenth time-out."""

    id = "F8"
    title = "carrier black hole"
    doses = {"short": Dose(200, seconds=12), "full": Dose(1_000, seconds=20)}
    short_environment = {"CARRIER_BULKHEAD": "10", "WORKER_CONCURRENCY": "60"}
    controls = {
        "bulkhead": Control("others' p99 during, s"),
        "breaker": Control("purchases after ten had timed out"),
    }
    alone = True
    bought = 0

    def strike(self, rig: Rig) -> None:
        half = self.dose.requests // 2
        sick = SICK["short" if self.dose is self.doses["short"] else "full"]
        fix_latency(rig)
        rig.send(rig.wishes(sick, carriers=("tortoise",), prefix="well"), at_once=50)
        rig.send(healthy(rig, half, "before"), at_once=8).join()
        rig.fault("tortoise", "hang", calls="all", seconds=3600)
        rig.send(rig.wishes(sick, carriers=("tortoise",), prefix="sick"), at_once=50)
        others = rig.send(healthy(rig, half, "during"), at_once=8)
        if not rig.wait_until(
            lambda: rig.database.count(TIMED_OUT) >= OPENING, DEADLINE * rig.scale + STARTING
        ):
            raise RuntimeError("no ten calls have timed out: nothing could open the breaker")
        before = rig.simulated("tortoise")["buys"]
        others.join()
        rig.send(rig.wishes(sick // 2, carriers=("tortoise",), prefix="more"), at_once=50).join()
        time.sleep(self.dose.seconds)
        self.bought = rig.simulated("tortoise")["buys"] - before
        rig.heal()

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        return [
            *compared(journals, "others'", 1.1),
            Measure("purchases after ten had timed out", self.bought, f"{SLACK} at most",
                    self.bought <= SLACK),
        ]  # fmt: skip


def fix_latency(rig: Rig) -> None:
    """Let each call of the other carriers take as long as the next."""
    for carrier in OTHERS:
        rig.simulator.set_latency(carrier, {"fixed": LATENCY * rig.scale})


def healthy(rig: Rig, count: int, prefix: str) -> list[Wish]:
    """Return synchronous labels of the other carriers."""
    return rig.wishes(count, synchronous=1.0, carriers=OTHERS, prefix=prefix)


def compared(journals: Journals, whose: str, factor: float) -> list[Measure]:
    """Return the p99 before and during: by that factor over, and by what two cores add (0.1 s)."""
    before, during = (p99(journals, prefix) for prefix in ("before", "during"))
    limit = round(before * factor + 0.1, 2)
    return [
        Measure(f"{whose} p99 before, s", before, "-", True),
        Measure(f"{whose} p99 during, s", during, f"{limit}", during <= limit),
    ]


def p99(journals: Journals, prefix: str) -> float:
    """Return the 99th percentile of the answers to intents with a prefix, in seconds."""
    waits = sorted(
        (told.acknowledged and told.seconds) or 999.0
        for told in journals.told
        if told.intent.partition(".")[2].startswith(prefix)
    )
    return round(percentile(waits, 0.99), 3)
