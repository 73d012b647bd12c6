"""Compare what a carrier says it has sold with what we know: its invoice list, or one lookup.

`compare` is pure. A label's identity is its tracking number: some carriers give a second label of
one reference the same id. Where labels are voided by their id it is that, too: there a list may
spell the number in another way.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from carriers import registry
from carriers.messages import Purchase
from parcels.models import Announcement, State
from parcels.models.announcement import OPEN


@dataclass(frozen=True, slots=True)
class Ours:
    """An announcement; `announcement` is its primary key, `tracking_number` its parcel's.

    `carrier_id` is its label's where the carrier voids by it, else empty.
    """

    reference: str
    state: str
    tracking_number: str
    announcement: int
    carrier_id: str = ""

    def has(self, label: Purchase) -> bool:
        """Tell whether a label of this reference is the announcement's own."""
        by_id = bool(self.carrier_id) and self.carrier_id == label.carrier_id
        return by_id or self.tracking_number == label.tracking_number


def voids_by_id(code: str) -> bool:
    """Tell whether a carrier voids the label of an id, whatever its number."""
    carrier = registry.CARRIERS.get(code)
    return carrier is not None and carrier.voids_by_id


def ours_of(announcement: Announcement) -> Ours:
    """Return the announcement as it is compared."""
    return Ours(
        announcement.reference,
        announcement.state,
        announcement.parcel.tracking_number,
        announcement.pk,
        announcement.carrier_id if voids_by_id(announcement.carrier) else "",
    )


@dataclass(frozen=True, slots=True)
class Extra:
    """A live label under a reference of ours that is not, or not yet, the announcement's own."""

    ours: Ours
    sold: Purchase


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs: labels of unknown references, announced rows without theirs, and extras.

    `under_review` are labels that a person may adopt: none is to be voided before.
    """

    not_ours: list[Purchase]
    not_sold: list[Ours]
    extra: list[Extra]
    under_review: list[Extra]


def compare(sold: Iterable[Purchase], ours: Mapping[str, Ours]) -> Comparison:
    """Compare live labels with announcements by reference.

    An announcement that ended without a label has none to keep: each live one is extra. One that
    is still open is left to reconciliation, or to the person who decides about it.
    """
    labels = {(label.reference, label.tracking_number): label for label in sold}
    pairs = [(label, ours.get(label.reference)) for label in labels.values()]
    listed = {known.reference for label, known in pairs if known and known.has(label)}
    return Comparison(
        not_ours=[label for label, known in pairs if known is None],
        not_sold=[
            known
            for known in ours.values()
            if known.state == State.ANNOUNCED and known.reference not in listed
        ],
        extra=[Extra(known, label) for label, known in pairs if known and _is_extra(label, known)],
        under_review=[
            Extra(known, label)
            for label, known in pairs
            if known and known.state == State.NEEDS_REVIEW
        ],
    )


def _is_extra(label: Purchase, known: Ours) -> bool:
    if known.state == State.ANNOUNCED:
        # Without a number of our own we can't tell which label is ours, and void none.
        return known.tracking_number != "" and not known.has(label)
    return known.state not in OPEN


class Check:
    """Compares a long list piece by piece; keeps only which announcements' labels it has seen."""

    def __init__(self, carrier: str) -> None:
        self._announcements = Announcement.objects.filter(carrier=carrier)
        self._by_id = voids_by_id(carrier)
        # Primary keys: some 60 MB for a million.
        self._seen: set[int] = set()

    def compare(self, sold: list[Purchase]) -> Comparison:
        """Compare some lines; one query. Its `not_sold` is empty: other lines may have them."""
        references = {label.reference for label in sold}
        ours = {row.reference: row for row in self._ours(reference__in=references)}
        found = compare(sold, ours)
        unsold = {row.announcement for row in found.not_sold}
        self._seen.update({row.announcement for row in ours.values()} - unsold)
        return replace(found, not_sold=[])

    def not_sold(self, since: datetime, until: datetime, **began: datetime) -> Iterator[Ours]:
        """Yield what ended as announced in `since` ≤ time < `until` and has no line of its own.

        `began` are conditions on `date_created`: a carrier may have booked at any moment from then
        on, and only a list of that whole time shows that it has not.
        """
        announced = self._ours(
            state=State.ANNOUNCED, date_ended__gte=since, date_ended__lt=until, **began
        )
        return (row for row in announced if row.announcement not in self._seen)

    def _ours(self, **conditions: Any) -> Iterator[Ours]:
        rows = self._announcements.filter(**conditions).values_list(
            *("reference", "state", "parcel__tracking_number", "pk"),
            *(["carrier_id"] if self._by_id else []),
        )
        return (Ours(*row) for row in rows.iterator(chunk_size=1_000))
