"""F14: clients that hang up while they are held, half of them."""

import time
from dataclasses import replace

import psutil

from loadtests.faults.clients import Load
from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig

# Clients at once: what two cores accept within a second or two, so that all are held when the
# impatient half goes, between HANG_UP[0] and HANG_UP[1] seconds at full scale.
WAVE = 200
HANG_UP = (4.0, 5.0)
# Seconds that the carrier takes: the patient half is still held when the connections are counted,
# ALLOWED seconds after the last of the others has gone.
CARRIER, ALLOWED = 12.0, 2.0
LEFT_OVER = "connections left of them, at most"
HALF_CLOSED = (psutil.CONN_ESTABLISHED, psutil.CONN_CLOSE_WAIT)


@register
class HangUp(Fault):
    """A client that has gone frees its connection, and its label is bought all the same.

    Its control waits in threads: nobody there reads from the connection until the carrier answers.
    """

    id = "F14"
    title = "client hangs up in the hold, half of them"
    doses = {"short": Dose(100), "full": Dose(2_000)}
    times = {"SIMULATOR_LATENCY_POSTNL": CARRIER}
    # Half of the clients must be held before the others go, which no scale makes quicker.
    short_scale = 1.0
    controls = {"hang-up": Control(LEFT_OVER, environment={}, strategy="gunicorn-gthread")}
    left_over = held = 0

    def strike(self, rig: Rig) -> None:
        first, last = (seconds * rig.scale for seconds in HANG_UP)
        for number in range(0, self.dose.requests, WAVE):
            count = min(WAVE, self.dose.requests - number)
            wishes = rig.wishes(
                count, synchronous=1.0, carriers=("postnl",), prefix=f"w{number}"
            )  # fmt: skip
            load = rig.send(
                [
                    replace(wish, hang_up=rig.rng.uniform(first, last) if place % 2 else None)
                    for place, wish in enumerate(wishes)
                ],
                at_once=count,
            )
            time.sleep(last)
            rig.wait_until(lambda load=load: _gone(load) >= len(load.wishes) // 2, 5, every=0.05)  # type: ignore[misc] # mypy: a default in a lambda
            rig.note(f"{_gone(load)} have gone")
            time.sleep(ALLOWED)
            self._count(rig, load)
            load.join()

    def _count(self, rig: Rig, load: Load) -> None:
        # Before the connections: a client answered in between must not hide one that was left.
        open_ = connections(rig.port)
        held = sum(told.status is None and not told.hung_up for told in load.told)
        self.held += held
        self.left_over = max(self.left_over, open_ - held)
        rig.note(f"{open_} connections for {held} who wait")

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        gone = [told for told in journals.told if told.hung_up]
        intents = {told.intent for told in gone}
        known = {parcel.id for parcel in journals.parcels if parcel.intent in intents}
        bought = {row.parcel for row in journals.announcements if row.state == "announced"}
        missing = len(known - bought)
        return [
            Measure("clients that hung up", len(gone), "some", bool(gone)),
            Measure("held meanwhile", self.held, "some", bool(self.held)),
            # Who goes before anything is stored has asked for nothing.
            Measure("parcels of theirs", len(known), "some", bool(known)),
            Measure("of these without a label", missing, "0", not missing),
            Measure(LEFT_OVER, self.left_over, "0", self.left_over <= 0),
        ]


def _gone(load: Load) -> int:
    return sum(told.hung_up for told in load.told)


def connections(port: int) -> int:
    """Count a port's connections that our side has not closed."""
    ours = [
        each.laddr.port
        for each in psutil.net_connections(kind="tcp4")
        if each.laddr and each.status in HALF_CLOSED
    ]
    return ours.count(port)
