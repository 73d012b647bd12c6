"""F19: a database that can't be written."""

import time

import psycopg

from loadtests.faults.fault import Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig

END_SESSIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = 'faults' AND pid <> pg_backend_pid()"
)


@register
class ReadOnly(Fault):
    """What can't be written down isn't bought: a 5xx, and no purchase."""

    id = "F19"
    title = "read-only database"
    may_refuse = 0.95
    doses = {"short": Dose(40), "full": Dose(200)}
    uncontrolled = "without its row nothing is announced: there is no guard to take away"
    bought = 0

    def strike(self, rig: Rig) -> None:
        self._set(rig, "on")
        before = rig.simulator.books()
        rig.send(rig.wishes(self.dose.requests, synchronous=0.5, prefix="ro"), at_once=10).join()
        time.sleep(2)
        self.bought = (rig.simulator.books() - before).booked
        self._set(rig, "off")
        rig.send(rig.wishes(20, synchronous=0.5, prefix="rw"), at_once=10).join()

    def _set(self, rig: Rig, value: str) -> None:
        rig.note(f"read-only {value}")
        with psycopg.connect(rig.cluster.url, autocommit=True) as admin:
            admin.execute(f"ALTER DATABASE faults SET default_transaction_read_only = {value}")
            admin.execute(END_SESSIONS)

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        struck = [told for told in journals.told if ".ro-" in told.intent]
        accepted = sum(told.acknowledged for told in struck)
        after = [told for told in journals.told if ".rw-" in told.intent]
        refused = sum((told.status or 0) >= 500 for told in struck)
        well = sum(told.acknowledged for told in after)
        return [
            Measure("2xx while read-only", accepted, "0", not accepted),
            Measure("5xx while read-only", refused, str(len(struck)), refused == len(struck)),
            Measure("purchases while read-only", self.bought, "0", not self.bought),
            Measure("2xx afterwards", well, "18 of 20 at least", well >= 18),
        ]
