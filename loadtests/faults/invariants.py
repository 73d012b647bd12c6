"""I1 to I12: what must hold whatever broke. Pure: journals in, violations out."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from loadtests.faults.journals import (
    CANCELLATION_REQUESTED,
    UNFINISHED,
    AnnouncementRow,
    Booking,
    Journals,
    ParcelRow,
)

# Examples kept per invariant: enough to find the cause, few enough to read.
EXAMPLES = 5
# Carriers that can tell, by dedup or lookup, what they hold under a reference: there nothing is
# bought twice, and no label is lost.
ASKABLE = frozenset({"postnl", "tortoise", "colibri", "meridian"})
# Parcel statuses that end an announcement, each with its webhook event.
BEING_ANNOUNCED, READY, FAILED, CANCELLED = 1001, 1000, 1002, 2000
TERMINAL = (READY, FAILED, CANCELLED)
# What an event's delivery has come to; no receiver of the suite refuses one.
ENDED = ("delivered", "failed", "nobody")
# Statuses that tracking gives to an announced parcel are under this.
TRACKED_BELOW, CANCELLATION_FAILED = 999, 94
# What a parcel may show when its last announcement has ended in a state. A label is shown with
# READY and with what tracking tells (_terminal), and with no other.
SHOWN = {
    "announced": {READY, CANCELLATION_FAILED},
    "failed": {FAILED, CANCELLED},
    "cancelled": {CANCELLED},
    "voided": {CANCELLED},
    "needs_review": {BEING_ANNOUNCED, FAILED, CANCELLATION_REQUESTED, CANCELLATION_FAILED},
}


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
    intents = {parcel.intent for parcel in journals.parcels}
    acknowledged = [told for told in journals.told if told.acknowledged]
    told = [(told.intent, parcel["id"]) for told in acknowledged for parcel in told.parcels]
    wrong = [f"{intent}: parcel {id_} is gone" for intent, id_ in told if id_ not in known]
    # Accepted by a front that could tell no more.
    unnamed = [told.intent for told in acknowledged if not told.parcels]
    wrong += [f"{intent}: nothing is stored" for intent in unnamed if intent not in intents]
    return _finding("I1", len(told) + len(unnamed), wrong)


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
    """I3: each announcement has ended, or is under review, where an operator sees it.

    A failure that no carrier asked for (I9) is no end: its parcel is lost.
    """
    wrong = [
        f"{row.reference}: still {row.state} after {row.tries} tries"
        for row in journals.announcements
        if row.state in UNFINISHED
    ]
    wrong += _failed_without_refusal(journals)
    with_row = {row.parcel for row in journals.announcements}
    wrong += [
        f"parcel {parcel.id}: being announced by nothing"
        for parcel in journals.parcels
        if parcel.status == BEING_ANNOUNCED and parcel.id not in with_row
    ]
    return _finding("I3", len(journals.announcements), wrong)


def label_is_live(journals: Journals) -> Finding:
    """I4: each label in a row is in the ledger under that row's reference, and not voided."""
    sold = {(line.reference, line.tracking_number) for line in journals.ledger}
    live = {(line.reference, line.tracking_number) for line in journals.live}
    labelled = [row for row in journals.announcements if row.state == "announced"]
    wrong = [
        f"{row.reference}: {row.tracking_number or 'no number'} was"
        f" {'voided' if (row.reference, row.tracking_number) in sold else 'never sold'}"
        for row in labelled
        if (row.reference, row.tracking_number) not in live
    ]
    return _finding("I4", len(labelled), wrong)


def purchase_has_a_row(journals: Journals) -> Finding:
    """I5: nothing was bought that we know nothing of."""
    known = {row.reference for row in journals.announcements}
    sold = {line.reference for line in journals.ledger}
    return _finding("I5", len(sold), [f"{each}: no row" for each in sold - known])


def answered_once_and_truly(journals: Journals) -> Finding:
    """I6: each client that stayed had one answer, and what it said is what is stored.

    Whoever asked for the label in the answer got it, the refusal, or 202: a 200 is an end.
    """
    rows = {parcel.id: parcel for parcel in journals.parcels}
    stayed = [told for told in journals.told if not told.hung_up]
    wrong = [f"{told.intent}: {told.error or 'no answer'}" for told in stayed if not told.status]
    for told in stayed:
        if not told.acknowledged:
            continue
        ended = told.synchronous and told.status == 200
        if told.error or (ended and not told.parcels):
            wrong.append(f"{told.intent}: {told.status} with {told.error or 'nothing in it'}")
        for parcel in told.parcels:
            status = parcel.get("status", {}).get("id")
            stored = rows.get(parcel["id"])
            wrong += [f"{told.intent}: {what}" for what in _untrue(parcel, status, stored, ended)]
    return _finding("I6", len(stayed), wrong)


def _untrue(
    parcel: Mapping[str, Any], status: int, stored: ParcelRow | None, ended: bool
) -> Iterator[str]:
    said = parcel["tracking_number"]
    if stored is not None and said and said != stored.tracking_number:
        yield f"was told {said}, stored {stored.tracking_number}"
    if ended and status == BEING_ANNOUNCED:
        yield "200, and its label is still being asked for"
    if ended and status == READY and not said:
        yield "200, and its label isn't in it"
    if ended and status == FAILED and stored is not None and stored.tracking_number:
        yield f"was told that it failed, stored {stored.tracking_number}"


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


def announced_is_one_live_booking(journals: Journals) -> Finding:
    """I8: announced means one live booking, the row's own; ended without a label means none.

    Of carriers that can be asked what they hold. What is under review is for a person to
    find out, what is unfinished is I3's.
    """
    live: defaultdict[str, list[str]] = defaultdict(list)
    for line in journals.live:
        live[line.reference].append(line.tracking_number)
    rows = [
        row
        for row in journals.announcements
        if row.carrier in ASKABLE and row.state not in (*UNFINISHED, "needs_review")
    ]
    wrong = [
        f"{row.reference}: {row.state} with {row.tracking_number or 'no label'},"
        f" live at the carrier: {live[row.reference] or 'none'}"
        for row in rows
        if live[row.reference] != ([row.tracking_number] if row.state == "announced" else [])
    ]
    return _finding("I8", len(rows), wrong)


def failed_means_refused(journals: Journals) -> Finding:
    """I9: what fails was refused by its carrier, can't be built, or was given up by a person."""
    failed = sum(row.state == "failed" for row in journals.announcements)
    return _finding("I9", failed, _failed_without_refusal(journals))


def _failed_without_refusal(journals: Journals) -> list[str]:
    may_fail = {
        attempt.announcement
        for attempt in journals.attempts
        if attempt.outcome in ("refused", "given_up")
        or (attempt.outcome, attempt.detail) == ("not_sent", "unbuildable")
    }
    return [
        f"{row.reference}: failed after {row.tries} tries, refused by nobody: {row.error}"
        for row in journals.announcements
        if row.state == "failed" and row.id not in may_fail
    ]


def sold_twice(journals: Journals) -> dict[str, list[Booking]]:
    """Return, by reference, what was ever sold more than once, voided or not."""
    booked: defaultdict[str, list[Booking]] = defaultdict(list)
    for line in journals.ledger:
        if line.event == "booked":
            booked[line.reference].append(line)
    return {reference: lines for reference, lines in booked.items() if len(lines) > 1}


def spares_are_known(journals: Journals) -> Finding:
    """I10: of what was ever sold twice, all but the row's own label is voided or known to us.

    Known: the row is under review, or an open spare names the label.
    """
    rows = {row.reference: row for row in journals.announcements}
    live = set(journals.live)
    named = {
        (spare.announcement, spare.tracking_number)
        for spare in journals.spares
        if spare.state == "open"
    }
    twice = sold_twice(journals)
    wrong = [
        f"{reference}: {unknown} of {len(lines)} labels live and unknown to us"
        for reference, lines in twice.items()
        if (unknown := _spare_numbers(rows.get(reference), lines, live, named))
    ]
    return _finding("I10", len(twice), wrong)


def _spare_numbers(
    row: AnnouncementRow | None,
    lines: list[Booking],
    live: set[Booking],
    named: set[tuple[int, str]],
) -> list[str]:
    """Return the labels that cost money and that nothing of ours names."""
    if row is not None and row.state == "needs_review":
        return []
    own = row.tracking_number if row is not None and row.state == "announced" else ""
    known = {number for announcement, number in named if row and announcement == row.id}
    return [
        line.tracking_number
        for line in lines
        if line in live and line.tracking_number not in known | {own}
    ]


def each_end_has_its_event(journals: Journals) -> Finding:
    """I11: each terminal status has one event, and the receiver saw what counts as delivered only.

    An event that was given up, or made for nobody, is one that it did not see.
    """
    written = Counter((event.parcel, event.status) for event in journals.outbox)
    wrong = [
        f"parcel {parcel.id}: {written[parcel.id, expected]} events of its status {expected}"
        for parcel in journals.parcels
        if (expected := _terminal(parcel.status)) and written[parcel.id, expected] != 1
    ]
    ended = {parcel.id: _terminal(parcel.status) for parcel in journals.parcels}
    wrong += [
        f"parcel {parcel}: {count} events of status {status}"
        for (parcel, status), count in written.items()
        if status in TERMINAL and count > 1 and status != ended.get(parcel)
    ]
    known = set(journals.outbox)
    wrong += [
        f"parcel {seen.parcel}: event {seen.id} of status {seen.status} is not in the outbox"
        for seen in journals.events
        if seen not in known
    ]
    heard = {seen.id for seen in journals.events}
    wrong += [
        f"parcel {event.parcel}: event {event.id} is {state}, and the receiver did not see it"
        for event in journals.outbox
        if (state := journals.deliveries.get(event.id)) in ENDED and event.id not in heard
    ]
    return _finding("I11", len(journals.parcels), wrong)


def each_parcel_shows_its_end(journals: Journals) -> Finding:
    """I12: a client that asks sees what its announcement has come to."""
    last = {row.parcel: row for row in sorted(journals.announcements, key=attrgetter("id"))}
    wrong = [
        f"parcel {parcel.id}: {row.state}, and shown as {parcel.status}"
        for parcel in journals.parcels
        if (row := last.get(parcel.id)) and row.state not in UNFINISHED
        if (_terminal(parcel.status) or parcel.status) not in SHOWN[row.state]
    ]
    return _finding("I12", len(last), wrong)


def _terminal(status: int) -> int:
    """Return the terminal status that a parcel has passed, 0 where it has none."""
    if status < TRACKED_BELOW and status != CANCELLATION_FAILED:
        return READY  # tracking goes on from there
    return status if status in TERMINAL else 0


INVARIANTS: tuple[Callable[[Journals], Finding], ...] = (
    acknowledged_has_a_row,
    bought_once,
    each_row_ends,
    label_is_live,
    purchase_has_a_row,
    answered_once_and_truly,
    nobody_else_s,
    announced_is_one_live_booking,
    failed_means_refused,
    spares_are_known,
    each_end_has_its_event,
    each_parcel_shows_its_end,
)


def check(journals: Journals) -> list[Finding]:
    return [invariant(journals) for invariant in INVARIANTS]
