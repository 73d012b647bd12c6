"""F7: carriers that cut the connection before or after they book."""

from loadtests.faults.fault import SOLD_TWICE, Control, Dose, Fault, register
from loadtests.faults.rig import MIX, Rig


@register
class Reset(Fault):
    """From the client's side the two look the same: only asking tells them apart."""

    id = "F7"
    title = "carrier resets before / after booking"
    doses = {"short": Dose(300), "full": Dose(5_000)}
    databases = ("postgresql", "sqlite")
    controls = {"unknown": Control(SOLD_TWICE)}

    def strike(self, rig: Rig) -> None:
        for carrier in (*MIX, "lantern"):
            rig.fault(carrier, "reset_before", share=0.05, seed=rig.seed)
            rig.fault(carrier, "reset_after", share=0.05, seed=rig.seed + 1)
        carriers = (*MIX, *MIX, *MIX, "lantern")
        rig.send(rig.wishes(self.dose.requests, synchronous=0.2, carriers=carriers)).join()
