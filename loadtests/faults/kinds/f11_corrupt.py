"""F11: a 200 with garbage or half a body, and a 500 after the booking."""

from loadtests.faults.fault import SOLD_TWICE, Control, Dose, Fault, register
from loadtests.faults.rig import MIX, Rig


@register
class Corrupt(Fault):
    """What can't be read is unknown, however friendly its status."""

    id = "F11"
    title = "corrupt or truncated 200; 500 after booking"
    doses = {"short": Dose(150), "full": Dose(1_000)}
    controls = {"unknown": Control(SOLD_TWICE)}

    def strike(self, rig: Rig) -> None:
        for number, carrier in enumerate(MIX):
            rig.fault(carrier, "corrupt", share=0.05, seed=rig.seed + number)
            rig.fault(carrier, "truncate", share=0.05, seed=rig.seed + number + 10)
            rig.fault(carrier, "error", when="after", share=0.05, seed=rig.seed + number + 20)
        rig.send(rig.wishes(self.dose.requests, synchronous=0.2)).join()
