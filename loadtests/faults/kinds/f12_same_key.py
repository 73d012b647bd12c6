"""F12: the same idempotency key fifty times at once."""

from dataclasses import replace

from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig

REPEATS = 50


@register
class SameKey(Fault):
    """Fifty clients want one label between them; half of the keys are external references."""

    id = "F12"
    title = "the same idempotency key 50 times at once"
    doses = {"short": Dose(8 * REPEATS), "full": Dose(200 * REPEATS)}
    databases = ("postgresql", "sqlite")
    controls = {"idempotency": Control("I2")}

    def strike(self, rig: Rig) -> None:
        for number, wish in enumerate(rig.wishes(self.dose.requests // REPEATS)):
            by_header = number % 2 == 0
            same = replace(
                wish,
                synchronous=number % 4 < 2,
                headers={"Idempotency-Key": wish.intent} if by_header else {},
                fields={} if by_header else {"external_reference": wish.intent},
            )
            rig.send([same] * REPEATS, at_once=REPEATS).join()

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        made: dict[str, set[int]] = {}
        for told in journals.told:
            ids = {parcel["id"] for parcel in told.parcels}
            made[told.intent] = made.get(told.intent, set()) | ids
        most = max(len(ids) for ids in made.values())
        return [Measure("parcels per key, at most", most, "1", most == 1)]
