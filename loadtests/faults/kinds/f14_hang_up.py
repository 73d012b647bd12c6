"""F14: clients that hang up while they are held, half of them."""

from __future__ import annotations

from dataclasses import replace

import psutil

from loadtests.faults.fault import Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig


@register
class HangUp(Fault):
    """A client that has gone frees its connection, and its label is bought all the same.

    It has no control: no guard stands between a closed connection and its end.
    """

    id = "F14"
    title = "client hangs up in the hold, half of them"
    doses = {"short": Dose(100), "full": Dose(2_000)}
    environment = {"SIMULATOR_LATENCY_POSTNL": "2"}
    freed = 99.0

    def strike(self, rig: Rig) -> None:
        wishes = rig.wishes(self.dose.requests, synchronous=1.0, carriers=("postnl",))
        impatient = [
            replace(wish, hang_up=rig.rng.uniform(0.8, 1.4) if number % 2 else None)
            for number, wish in enumerate(wishes)
        ]
        rig.send(impatient, at_once=100).join()
        rig.note("the last client is gone")
        begun = rig.clock()
        rig.wait_until(lambda: not connections(rig.port), 10, every=0.1)
        self.freed = rig.clock() - begun

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        gone = [told for told in journals.told if told.hung_up]
        intents = {told.intent for told in gone}
        known = {parcel.id for parcel in journals.parcels if parcel.intent in intents}
        bought = {row.parcel for row in journals.announcements if row.state == "announced"}
        missing = len(known - bought)
        return [
            Measure("clients that hung up", len(gone), "some", bool(gone)),
            Measure("their parcels without a label", missing, "0", not missing),
            Measure("seconds until no connection is left", round(self.freed, 2), "2",
                    self.freed <= 2),
        ]  # fmt: skip


def connections(port: int) -> int:
    """Count the established connections to a port of ours."""
    found = [
        each.laddr.port
        for each in psutil.net_connections(kind="tcp4")
        if each.status == psutil.CONN_ESTABLISHED and each.laddr
    ]
    return found.count(port)
