"""F28: payloads that end whatever touches them."""

import time
from collections.abc import Sequence
from dataclasses import replace

import psycopg

from loadtests.faults.clients import Wish
from loadtests.faults.contracts import Change, change_contracts
from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.journals import UNFINISHED, Journals
from loadtests.faults.rig import LEASE, SETTLING, Rig

# What kills the process that prepares it.
COMPANY = "SIM:KILL"
# The carrier of what is poison by its contract (first account) and by its answers (second).
SICK = "tortoise"
# Of each kind; of those that kill fewer, as each death ends all that its process was at.
EACH, KILLS = 4, 1
# Seconds at full scale until what is poison is under review: some claims with a lease each, and for
# the answers as many looks.
REVIEWED_AFTER = 8 * LEASE
# Seconds, whatever the scale, for a worker that is started again after each of its deaths.
STARTING = 60.0
OTHERS = "slowest of the others, s"


@register
class Poison(Fault):
    """An announcement that ends its claimants goes to a person, and the others are announced.

    Payloads that kill their process, a contract that can't be decrypted, and answers that the
    database refuses. As under a service manager, a worker that has died is started again.
    """

    id = "F28"
    title = "a payload that kills, a row that raises, an answer that can't be stored"
    doses = {"short": Dose(50), "full": Dose(50)}
    environment = {"FAULT_CRASH_AT": "poison"}
    # An answer that can't be read is asked for again until then: for an hour, as shipped.
    times = {"ANNOUNCEMENT_MAX_UNKNOWN_AGE": 6 * LEASE}
    controls = {"claims": Control("I3")}
    may_review = (KILLS + 2 * EACH) / 50
    rest = 2 * REVIEWED_AFTER
    deaths = 0

    def strike(self, rig: Rig) -> None:
        self._break_contract(rig)
        rig.fault(SICK, "poison_answer", calls="all", how="nul")
        poison = self._poison(rig)
        others = rig.wishes(self.dose.requests - len(poison), synchronous=0.2, prefix="other")
        rig.send(poison, at_once=4)
        rig.send(others, at_once=4)
        end = time.monotonic() + STARTING + REVIEWED_AFTER * rig.scale
        while time.monotonic() < end and self._waiting(rig):
            self.deaths += rig.revive("worker")
            rig.revive("sweeper")
            time.sleep(0.2)

    def _break_contract(self, rig: Rig) -> None:
        """Give the first account a contract whose credentials no secret decrypts."""
        change_contracts(rig, [Change(0, SICK, "lost")])
        account = rig.database.accounts(rig.publics)[0]
        with psycopg.connect(rig.stack.env["DATABASE_URL"], autocommit=True) as database:
            database.execute(
                "UPDATE parcels_carriercontract SET credentials = 'garbage'"
                " WHERE account_id = %s AND carrier = %s",
                (account, SICK),
            )

    def _poison(self, rig: Rig) -> list[Wish]:
        kills = rig.wishes(KILLS, carriers=("postnl",), prefix="kills",
                           fields={"company_name": COMPANY})  # fmt: skip
        raises = rig.wishes(EACH, carriers=(SICK,), prefix="raises")
        refused = rig.wishes(EACH, carriers=(SICK,), prefix="refused")
        return [
            *kills,
            *(replace(wish, account=0) for wish in raises),
            *(replace(wish, account=1) for wish in refused),
        ]

    def _waiting(self, rig: Rig) -> bool:
        answering = any(load.is_alive() for load in rig.loads)
        return answering or any(row.state in UNFINISHED for row in rig.journals().announcements)

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        slowest = _slowest(rig, f"{rig.prefix}other")
        # Claimed beside the one that kills, an innocent row is lost with it twice, a lease each
        # time; then it comes back at a moment of its own, within half a lease.
        limit = STARTING + (2.5 * LEASE + SETTLING) * rig.scale
        bad = _states(journals, ("kills", "raises", "refused"))
        reviewed = sum(state == "needs_review" for state in bad)
        innocent = _states(journals, ["other"])
        announced = sum(state == "announced" for state in innocent)
        return [
            Measure("workers killed", self.deaths, "1 at least", self.deaths >= 1),
            Measure("under review", reviewed, str(len(bad)), reviewed == len(bad)),
            Measure("others announced", announced, str(len(innocent)),
                    announced == len(innocent)),
            Measure(OTHERS, slowest, f"{limit:g}", slowest <= limit),
        ]  # fmt: skip


def _states(journals: Journals, prefixes: Sequence[str]) -> list[str]:
    parts = {parcel.id: parcel.intent.partition(".")[2] for parcel in journals.parcels}
    return [row.state for row in journals.announcements
            if parts[row.parcel].startswith(tuple(prefixes))]  # fmt: skip


def _slowest(rig: Rig, prefix: str) -> float:
    """Return the longest time from request to end, in seconds; one that has none still counts."""
    rows = rig.database.ask(
        "SELECT p.order_number, extract(epoch FROM"
        " coalesce(a.date_ended, clock_timestamp()) - a.date_created)"
        " FROM parcels_announcement a JOIN parcels_parcel p ON p.id = a.parcel_id"
    )
    return round(max(float(age) for intent, age in rows if intent.startswith(prefix)), 1)
