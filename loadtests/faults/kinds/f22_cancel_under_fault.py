"""F22: cancellations while workers die, void calls are reset, and two sweepers wake the rest."""

import itertools
import time

from celery import Celery

from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig
from loadtests.faults.shop import accounts_by_parcel, can_be_printed, cancel

# All that can say what they hold, or sell a reference once only.
CARRIERS = ("postnl", "colibri", "meridian", "tortoise")
CANCELLED, DECIDED = 2000, (94, 2000)
# Share of the calls that are reset before or after they take the label back, each.
SHARE = 0.15
# Messages for each void: the second worker finds the row taken.
TIMES = 3
# Seconds at full scale that a cancellation may take, with the waits between its tries.
CANCELLING = 300.0


@register
class CancelUnderFault(Fault):
    """A label is voided by one process at a time, and what a lost answer left is cleared up.

    Half of the parcels are cancelled while they are being announced. Whatever has not become
    cancelled when the carriers are well again is cancelled once more, and must be cancelled then.
    """

    id = "F22"
    title = "cancel and void under SIGKILL, resets and two sweepers"
    doses = {"short": Dose(120, 2), "full": Dose(1_000, 20)}
    # A parcel that is on its way can't be cancelled: in a full dose they would be, after a minute.
    environment = {"SIMULATOR_TRACKING_STEP": "0"}
    controls = {"void_check": Control("voided labels that can be printed")}
    printable = stuck = refused = 0

    def strike(self, rig: Rig) -> None:
        rig.one_more("sweeper")
        half = self.dose.requests // 2
        rig.send(rig.wishes(half, carriers=CARRIERS, prefix="ready")).join()
        rig.rest(self.rest * rig.scale + half * 0.1)
        for carrier in CARRIERS:
            rig.fault(carrier, "reset_before", share=SHARE, calls="all", seed=rig.seed)
            rig.fault(carrier, "reset_after", share=SHARE, calls="all", seed=rig.seed + 1)
        load = rig.send(
            rig.wishes(self.dose.requests - half, carriers=CARRIERS, prefix="early"), at_once=10
        )
        self._cancel(rig, self._ids(rig, "ready"))
        self._kill(rig)
        load.join()
        self._cancel(rig, self._ids(rig, "early"))
        self._kill(rig)
        rig.heal()
        self._settle(rig)
        self._cancel(rig, [id_ for id_, status in self._statuses(rig) if status != CANCELLED])
        self._settle(rig)
        self._look(rig)

    def _kill(self, rig: Rig) -> None:
        for _ in range(self.dose.strikes // 2):
            time.sleep(rig.rng.uniform(0.3, 1.0))
            rig.kill("worker")

    def _statuses(self, rig: Rig) -> list[tuple[int, int]]:
        sql = "SELECT id, status FROM parcels_parcel WHERE order_number LIKE '{}%' ORDER BY id"
        return [(int(id_), int(status)) for id_, status in rig.database.ask(sql.format(rig.prefix))]

    def _ids(self, rig: Rig, prefix: str) -> list[int]:
        return [parcel["id"] for told in rig.told if f".{prefix}" in told.intent
                for parcel in told.parcels]  # fmt: skip

    def _cancel(self, rig: Rig, parcels: list[int]) -> None:
        answers = cancel(rig, parcels)
        self.refused = sum(count for code, count in answers.items() if code >= 400)
        _wake_again(rig)

    def _settle(self, rig: Rig) -> None:
        """Wait until each cancellation is decided."""

        def decided() -> bool:
            return all(status in DECIDED for _, status in self._statuses(rig))

        rig.wait_until(decided, 20 + CANCELLING * rig.scale + 0.05 * self.dose.requests, every=0.5)

    def _look(self, rig: Rig) -> None:
        """Count what can be printed although its label was voided, and what is not cancelled."""
        journals = rig.journals()
        live = {line.reference for line in journals.live}
        sold = {line.reference for line in journals.ledger}
        owners = accounts_by_parcel(rig)
        self.printable = sum(
            can_be_printed(rig, row.parcel, owners[row.parcel])
            for row in journals.announcements
            if row.reference in sold and row.reference not in live
        )
        self.stuck = sum(status != CANCELLED for _, status in self._statuses(rig))

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        cancelled = {parcel.id for parcel in journals.parcels if parcel.status == CANCELLED}
        live = {line.reference for line in journals.live}
        sold = sum(row.parcel in cancelled and row.reference in live
                   for row in journals.announcements)  # fmt: skip
        return [
            Measure("voided labels that can be printed", self.printable, "0", not self.printable),
            Measure("not cancelled after a second request", self.stuck, "0", not self.stuck),
            Measure("second requests that were refused", self.refused, "0", not self.refused),
            Measure("cancelled with a live label", sold, "0", not sold),
        ]


def _wake_again(rig: Rig) -> None:
    """Have each label's voiding asked for several times at once, as two sweepers may."""
    rows = rig.database.ask(
        "SELECT a.id, a.carrier FROM parcels_announcement a JOIN parcels_parcel p"
        " ON p.id = a.parcel_id WHERE a.state = 'announced' AND p.status IN (1999, 2001)"
    )
    broker = Celery(broker=rig.broker_url)
    with broker.connection_for_write() as connection:
        for (id_, carrier), _ in itertools.product(rows, range(TIMES)):
            broker.send_task("parcels.tasks.void", args=[id_], queue=f"announce.{carrier}",
                             declare=[], connection=connection)  # fmt: skip
    rig.note(f"{len(rows)} labels to be voided, {TIMES} messages each")
