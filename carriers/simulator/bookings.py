"""What the carriers have sold, indexed; rebuilt from the ledger at start."""

import asyncio
import math
import secrets
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from carriers.simulator.call import By
from carriers.simulator.catalogue import CATALOGUE
from carriers.simulator.ledger import Entry, Event, Ledger
from carriers.simulator.parcel import Parcel
from carriers.simulator.spec import CarrierSpec

# Addresses are kept in memory alone, for the newest bookings: enough for any client that looks an
# answer up again, and about 20 MB. Older labels, and those from before a restart, have no address.
ADDRESSES_KEPT = 20_000


@dataclass(slots=True, eq=False)
class Booking:
    """A label that was bought; `stage` is its place in the tracking journey."""

    carrier: str
    reference: str
    shipment_id: str
    tracking_number: str
    product: int
    price: str
    at: float
    by: str
    owner: str = ""
    receiver: dict[str, str] | None = None
    voided: bool = False
    stage: int = 0
    # A carrier that dedups returns it again: its journey begins once.
    announced: bool = False
    # Set while its line is on the way to the disk: a lookup of it waits for that.
    committing: asyncio.Future[None] | None = None
    # The same of its voiding: a second call waits for it.
    voiding: asyncio.Future[None] | None = None

    def is_seen_by(self, owner: str) -> bool:
        """Return whether a credential's calls know it; without an owner it is everybody's."""
        return not owner or self.owner in ("", owner)


class Bookings:
    """Every booking of every carrier."""

    def __init__(self, ledger: Ledger) -> None:
        # Purchases per carrier, voided ones included: counted, because it is asked for often.
        self.counts: Counter[str] = Counter()
        self._ledger = ledger
        self._references: dict[tuple[str, str], list[Booking]] = defaultdict(list)
        self._shipments: dict[tuple[str, str], Booking] = {}
        self._tracking: dict[str, Booking] = {}
        self._addressed: deque[Booking] = deque()
        for entry in ledger.entries:
            self._replay(entry)

    async def book(self, spec: CarrierSpec, parcel: Parcel, by: By, owner: str = "") -> Booking:
        """Sell a label; a carrier that dedups returns the owner's first one of that reference.

        Returns when it is in the ledger; raises LedgerError, and then nothing was sold.
        """
        # No await between this look and `_add`: fifty calls at once find one booking.
        first = next(self._of(spec.code, parcel.reference, owner), None)
        if spec.repeats == "dedup" and first is not None:
            if first.committing is not None:
                await asyncio.shield(first.committing)
            return first
        booking = Booking(
            carrier=spec.code,
            reference=parcel.reference,
            shipment_id=secrets.token_hex(8),
            tracking_number=self._new_tracking_number(spec),
            product=parcel.product,
            price=str(spec.products[parcel.product].price),
            at=time.time(),
            by=by,
            owner=owner,
            receiver=dict(parcel.receiver),
        )
        self._add(booking)
        await self._commit_first(booking)
        self._keep_address(booking)
        return booking

    async def void(self, booking: Booking) -> bool:
        """Take a label back; False where it is voided already or on its way."""
        if booking.voided or booking.stage > 0:
            return False
        if booking.voiding is not None:
            await asyncio.shield(booking.voiding)
            return False
        booking.voiding = asyncio.ensure_future(self._enter("voided", booking))
        booking.voiding.add_done_callback(lambda done: self._voided(booking, done))
        await asyncio.shield(booking.voiding)
        return True

    def live(
        self, carrier: str, reference: str, lag: float = 0.0, *, owner: str = ""
    ) -> list[Booking]:
        """Return what isn't voided and is older than `lag` seconds, oldest first."""
        newest = time.time() - lag if lag else math.inf
        return [
            booking
            for booking in self._of(carrier, reference, owner)
            if not booking.voided and booking.committing is None and booking.at <= newest
        ]

    def known(self, carrier: str, reference: str, owner: str = "") -> bool:
        """Return whether a reference was ever booked, voided ones included."""
        return any(True for _ in self._of(carrier, reference, owner))

    def by_shipment(self, carrier: str, shipment_id: str, owner: str = "") -> Booking | None:
        """Return a carrier's booking by the id that it gave it."""
        booking = self._shipments.get((carrier, shipment_id))
        return booking if booking and booking.is_seen_by(owner) else None

    def by_tracking(self, tracking_number: str) -> Booking | None:
        """Return a booking by its tracking number."""
        return self._tracking.get(tracking_number)

    def all(self) -> Iterable[Booking]:
        """Return every booking that is in the ledger, voided ones included."""
        return [booking for booking in self._shipments.values() if booking.committing is None]

    def _of(self, carrier: str, reference: str, owner: str) -> Iterator[Booking]:
        bookings = self._references.get((carrier, reference), ())
        return (booking for booking in bookings if booking.is_seen_by(owner))

    def of_carrier(self, carrier: str) -> list[Booking]:
        """Return what a carrier sold, voided ones included."""
        return [booking for booking in self.all() if booking.carrier == carrier]

    async def _commit_first(self, booking: Booking) -> None:
        booking.committing = asyncio.ensure_future(self._enter("booked", booking))
        booking.committing.add_done_callback(lambda done: self._committed(booking, done))
        await asyncio.shield(booking.committing)

    def _committed(self, booking: Booking, done: asyncio.Future[None]) -> None:
        booking.committing = None
        if done.cancelled() or done.exception() is not None:
            self._remove(booking)
        else:
            self.counts[booking.carrier] += 1

    def _voided(self, booking: Booking, done: asyncio.Future[None]) -> None:
        booking.voiding = None
        booking.voided = not done.cancelled() and done.exception() is None

    async def _enter(self, event: Event, booking: Booking) -> None:
        entry = await self._ledger.append(
            event,
            carrier=booking.carrier,
            reference=booking.reference,
            shipment_id=booking.shipment_id,
            tracking_number=booking.tracking_number,
            product=booking.product,
            price=booking.price,
            by=booking.by if event == "booked" else "call",
            owner=booking.owner,
        )
        if event == "booked":
            booking.at = entry.at

    def _add(self, booking: Booking) -> None:
        self._references[booking.carrier, booking.reference].append(booking)
        self._shipments[booking.carrier, booking.shipment_id] = booking
        self._tracking[booking.tracking_number] = booking

    def _remove(self, booking: Booking) -> None:
        self._references[booking.carrier, booking.reference].remove(booking)
        del self._shipments[booking.carrier, booking.shipment_id]
        del self._tracking[booking.tracking_number]

    def _keep_address(self, booking: Booking) -> None:
        self._addressed.append(booking)
        if len(self._addressed) > ADDRESSES_KEPT:
            self._addressed.popleft().receiver = None

    def _new_tracking_number(self, spec: CarrierSpec) -> str:
        # The index covers earlier runs, too: it was rebuilt from the ledger.
        while True:
            number = spec.tracking.format(secrets.randbelow(10**10))
            if number not in self._tracking:
                return number

    def _replay(self, entry: Entry) -> None:
        if entry.event == "voided":
            self._shipments[entry.carrier, entry.shipment_id].voided = True
            return
        self.counts[entry.carrier] += 1
        self._add(
            Booking(
                carrier=entry.carrier,
                reference=entry.reference,
                shipment_id=entry.shipment_id,
                tracking_number=entry.tracking_number,
                product=entry.product,
                price=entry.price,
                at=entry.at,
                by=entry.by,
                owner=entry.owner,
                announced=True,
            )
        )


def summary(bookings: Bookings) -> dict[str, dict[str, object]]:
    """Return, per carrier, what was sold, taken back, paid and bought twice."""
    sold: dict[str, list[Booking]] = {code: [] for code in CATALOGUE}
    for booking in bookings.all():
        sold.setdefault(booking.carrier, []).append(booking)
    return {code: _summary(group) for code, group in sold.items()}


def _summary(group: list[Booking]) -> dict[str, object]:
    live: dict[str, int] = defaultdict(int)
    for booking in group:
        live[booking.reference] += not booking.voided
    double = sorted(reference for reference, count in live.items() if count > 1)
    spent = sum((Decimal(b.price) for b in group if not b.voided), Decimal("0.00"))
    return {
        "booked": len(group),
        "voided": sum(booking.voided for booking in group),
        "references": len(live),
        "double_booked": len(double),
        # A hundred are enough to find the cause; the number above is complete.
        "double_booked_references": double[:100],
        "late_commits": sum(booking.by == "late commit" for booking in group),
        "spent": str(spent),
    }
