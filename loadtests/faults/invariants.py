"""I1 to I7: what must hold whatever broke. Pure: three journals in, violations out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from loadtests.faults.journals import UNFINISHED, Journals

# Examples kept per invariant: enough to find the cause, few enough to read.
EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """What one invariant found: how many things it looked at, how many broke it, and examples."""

    invariant: str
    checked: int
    violations: int
    examples: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Tell whether nothing broke it."""
        return not self.violations


def _finding(invariant: str, checked: int, wrong: list[str]) -> Finding:
    return Finding(invariant, checked, len(wrong), tuple(wrong[:EXAMPLES]))


def acknowledged_has_a_row(journals: Journals) -> Finding:
    """I1: each id that a client was told exists."""
    known = {parcel.id for parcel in journals.parcels}
    told = [
        (told.intent, parcel["id"])
        for told in journals.told
        if told.acknowledged
        for parcel in told.parcels
    ]
    wrong = [f"{intent}: parcel {id_} is gone" for intent, id_ in told if id_ not in known]
    return _finding("I1", len(told), wrong)


def bought_once(journals: Journals) -> Finding:
    """I2: at most one live purchase for what a client wanted one of."""
    intents = {parcel.id: parcel.intent for parcel in journals.parcels}
    by_reference = {row.reference: intents[row.parcel] for row in journals.announcements}
    bought = Counter(
        by_reference[line.reference] for line in journals.live if line.reference in by_reference
    )
    wrong = [f"{intent}: bought {count} times" for intent, count in bought.items() if count > 1]
    return _finding("I2", len(bought), wrong)


def each_row_ends(journals: Journals) -> Finding:
    """I3: each announcement has ended, or is parked where an operator sees it."""
    wrong = [
        f"{row.reference}: still {row.state} after {row.tries} tries"
        for row in journals.announcements
        if row.state in UNFINISHED
    ]
    with_row = {row.parcel for row in journals.announcements}
    wrong += [
        f"parcel {parcel.id}: being announced by nothing"
        for parcel in journals.parcels
        if parcel.status == 1001 and parcel.id not in with_row
    ]
    return _finding("I3", len(journals.announcements), wrong)


def label_was_bought(journals: Journals) -> Finding:
    """I4: each label in a row is in the ledger under that row's reference."""
    sold = {(line.reference, line.tracking_number) for line in journals.ledger}
    labelled = [row for row in journals.announcements if row.state == "announced"]
    wrong = [
        f"{row.reference}: {row.tracking_number or 'no number'} was never sold"
        for row in labelled
        if (row.reference, row.tracking_number) not in sold
    ]
    return _finding("I4", len(labelled), wrong)


def purchase_has_a_row(journals: Journals) -> Finding:
    """I5: nothing was bought that we know nothing of."""
    known = {row.reference for row in journals.announcements}
    sold = {line.reference for line in journals.ledger}
    return _finding("I5", len(sold), [f"{each}: no row" for each in sold - known])


def answered_once_and_truly(journals: Journals) -> Finding:
    """I6: each client that stayed had one answer, and what it said is what is stored."""
    rows = {parcel.id: parcel for parcel in journals.parcels}
    stayed = [told for told in journals.told if not told.hung_up]
    wrong = [f"{told.intent}: {told.error or 'no answer'}" for told in stayed if not told.status]
    for told in stayed:
        for parcel in told.parcels if told.acknowledged else []:
            row = rows.get(parcel["id"])
            said = parcel["tracking_number"]
            if row is not None and said and said != row.tracking_number:
                wrong.append(f"{told.intent}: was told {said}, stored {row.tracking_number}")
    return _finding("I6", len(stayed), wrong)


def nobody_else_s(journals: Journals) -> Finding:
    """I7: each answer is about the asker's own parcel, and stored as the asker's."""
    owners = {parcel.id: parcel.account for parcel in journals.parcels}
    wrong: list[str] = []
    checked = 0
    for told in journals.told:
        for parcel in told.parcels:
            checked += 1
            owner = owners.get(parcel["id"])
            mine = journals.accounts.get(told.account)
            if parcel["order_number"] != told.intent or (owner is not None and owner != mine):
                wrong.append(f"{told.intent}: got {parcel['order_number']} of account {owner}")
    return _finding("I7", checked, wrong)


INVARIANTS: tuple[Callable[[Journals], Finding], ...] = (
    acknowledged_has_a_row,
    bought_once,
    each_row_ends,
    label_was_bought,
    purchase_has_a_row,
    answered_once_and_truly,
    nobody_else_s,
)


def check(journals: Journals) -> list[Finding]:
    """Check all seven."""
    return [invariant(journals) for invariant in INVARIANTS]


def purchases_by_intent(journals: Journals) -> dict[str, int]:
    """Return the live purchases of each intent, for a fault's own questions."""
    intents = {parcel.id: parcel.intent for parcel in journals.parcels}
    counts: defaultdict[str, int] = defaultdict(int)
    by_reference = {row.reference: intents[row.parcel] for row in journals.announcements}
    for line in journals.live:
        counts[by_reference.get(line.reference, "?")] += 1
    return dict(counts)
