"""F27: an account's credentials change between a purchase and all that follows it."""

from loadtests.faults.contracts import Change, change_contracts
from loadtests.faults.fault import SOLD_TWICE, Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import MIX, Rig
from loadtests.faults.shop import cancel

CANCELLED, UNDECIDED = 2000, (1999, 2001)
# Seconds at full scale that a cancellation may take.
CANCELLING = 200.0


@register
class CredentialsChanged(Fault):
    """Lookup, repeat and void use the credentials of the purchase; else a person decides.

    One account begins a new default contract, and the old one still exists; the other edits its
    contract in place, and what it was is gone. A carrier shows a booking to its buyer alone.
    """

    id = "F27"
    title = "credentials changed between purchase and lookup or void"
    doses = {"short": Dose(60), "full": Dose(200)}
    # Each purchase of the middle part loses its answer: an open breaker would prevent them.
    environment = {"CARRIER_BREAKER_WINDOW": "100000", "CARRIER_BREAKER_MIN_CALLS": "100000"}
    controls = {"credentials": Control(SOLD_TWICE)}
    # Of the account whose contract is gone.
    may_review = 0.5

    def strike(self, rig: Rig) -> None:
        third = self.dose.requests // 3
        change_contracts(rig, [Change(account, code, "old") for account in (0, 1) for code in MIX])
        bought = rig.send(rig.wishes(third, prefix="void"))
        bought.join()
        rig.rest(self.rest * rig.scale)
        for carrier in MIX:
            rig.fault(carrier, "reset_after")
            rig.fault(carrier, "error", calls="lookup", status=503)
        unknown = self.dose.requests - third
        rig.send(rig.wishes(unknown, prefix="unknown")).join()
        rig.wait_until(lambda: _unknown(rig) >= unknown, 10 + 30 * rig.scale)
        rig.note(f"{_unknown(rig)} bought, answers lost")
        change_contracts(rig, [Change(0, code, "new", "new") for code in MIX])
        change_contracts(rig, [Change(1, code, "new", "edit") for code in MIX])
        rig.heal()
        cancel(rig, [parcel["id"] for told in bought.told for parcel in told.parcels])
        rig.rest(self.rest * rig.scale)
        rig.wait_until(lambda: _decided(rig, f"{rig.prefix}void"), 10 + CANCELLING * rig.scale)

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        live = {line.reference for line in journals.live}
        accounts = {id_: place for place, id_ in journals.accounts.items()}
        owner = {parcel.id: accounts[parcel.account] for parcel in journals.parcels}
        status = {parcel.id: parcel.status for parcel in journals.parcels}
        part = {parcel.id: parcel.intent.partition(".")[2][:4] for parcel in journals.parcels}
        first = [row for row in journals.announcements if owner[row.parcel] == 0]
        found = [row for row in first if part[row.parcel] == "unkn"]
        lost = sum(row.state != "announced" for row in found)
        kept = sum(status[row.parcel] != CANCELLED for row in first if part[row.parcel] == "void")
        untrue = sum(status[row.parcel] == CANCELLED and row.reference in live
                     for row in journals.announcements)  # fmt: skip
        return [
            Measure("not found by the old contract", lost, "0", not lost),
            Measure("not cancelled by the old contract", kept, "0", not kept),
            Measure("cancelled with a live label", untrue, "0", not untrue),
        ]


def _unknown(rig: Rig) -> int:
    """Count the announcements whose purchase has lost its answer."""
    return len({each.announcement for each in rig.journals().attempts if each.outcome == "unknown"})


def _decided(rig: Rig, prefix: str) -> bool:
    """Tell whether each cancellation has ended, one way or the other."""
    return all(
        parcel.status not in UNDECIDED
        for parcel in rig.journals().parcels
        if parcel.intent.startswith(prefix)
    )
