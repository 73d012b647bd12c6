"""A model of carriers and of the processes that call them, for the state machine.

A *process* is a greenlet. It stops before each write outside a transaction, before a call's first
byte and before the call's answer arrives. The state machine lets it go on, kills it there, or lets
others work meanwhile. A crash inside a transaction leaves what a crash before it leaves.

All times are the model's: `World.now` in seconds. What a carrier does at a call is a *fate*.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import greenlet  # type: ignore[import-untyped] # it has no stubs
from django.db import connection

from carriers.base import Carrier
from carriers.messages import Consignment, Purchase
from carriers.outcomes import (
    Absent,
    Announced,
    Document,
    Found,
    LookupResult,
    NotSent,
    Outcome,
    Refused,
    Throttled,
    Unknown,
    Voided,
    VoidResult,
)
from parcels.models import Announcement
from parcels.services.job import Job, consignment
from parcels.tests.factories import PDF

DEADLINE = 30.0
LEASE = 75.0
# Seconds before the end of the settling window at which the latest booking is made and listed.
BEFORE_THE_END = 3.0
# Longer than the settling window, shorter than the last late look.
FORGOTTEN_FOR = 3000.0

# What a carrier may do at a call: to a purchase; to a lookup; to a void.
FATES = {
    "well": "books and answers; lists all; voids and answers",
    "after": "books, the answer is lost; leaves out what is young; voids, the answer is lost",
    "late": "books after the call has ended, no answer; leaves out what is young; as after",
    "lost": "nothing happens, no answer; lists all; nothing happens, no answer",
    "refused": "a documented 4xx; a server error; refuses to void, for good",
    "credentials": "401",
    "conflict": "409; a server error; no answer",
    "throttled": "429",
    "unreachable": "no connection",
    "turned_away": "a guard of ours turns the call away",
}
# A carrier that can list several labels under one reference may also do these to a purchase.
TWICE = "twice"  # sells two, the answer is lost
FORGOTTEN = "forgotten"  # books, no answer, and lists it only after the window
LISTS_SEVERAL = frozenset({"postnl"})


@dataclass
class Booking:
    """A label in the carrier's ledger. `purchase` numbers the request that bought it."""

    purchase: int
    credentials: str
    label: Announced
    at: float
    young_until: float
    listed_from: float = 0.0
    voided: bool = False
    shipped: bool = False  # will never be voided
    # A void of it got no answer and did nothing, at a carrier that can't be asked: a later refusal
    # is taken for "voided before" (parcels.services.spares.call_void says why).
    doubtful: bool = False


class Process:
    """Work that can stop at each step, go on later, or die."""

    def __init__(self, world: World, row: int, work: Callable[[int], Any]) -> None:
        self.world, self.row, self.work = world, row, work
        self.left = 0  # that it passes before it stops
        self.greenlet = greenlet.greenlet(self._run)
        # What it has put around its statements is not around the others': as if each had a
        # connection of its own.
        self.wrappers = [*connection.execute_wrappers]

    def _run(self) -> None:
        self.work(self.row)

    def go_on(self, stops: int) -> bool:
        """Pass so many stops; return whether it stands at the next one."""
        self.left = stops
        if not self.greenlet.dead:
            self._as_running(self.greenlet.switch)
        return not self.greenlet.dead

    def die(self) -> None:
        """End as by SIGKILL."""
        if not self.greenlet.dead:
            self._as_running(self.greenlet.throw)

    def stop(self) -> None:
        """Stand here, if it is time to; called from within."""
        if self.left == 0:
            parent = self.greenlet.parent
            assert parent is not None
            parent.switch()
        else:
            self.left -= 1

    def _as_running(self, switch: Callable[[], Any]) -> None:
        self.world.running = self
        others, connection.execute_wrappers = connection.execute_wrappers, self.wrappers
        try:
            switch()
        finally:
            self.world.running = None
            connection.execute_wrappers = others


@dataclass
class World:
    """The carriers' side: a clock, a ledger for each reference, and what they do next."""

    now: float = 0.0
    # Rows whose preparation kills its process.
    poison: set[int] = field(default_factory=set)
    killed: Counter[int] = field(default_factory=Counter)
    ledger: dict[str, list[Booking]] = field(default_factory=lambda: defaultdict(list))
    # References of which a purchase was refused; how many purchases of each got no answer.
    refused: set[str] = field(default_factory=set)
    unanswered: Counter[str] = field(default_factory=Counter)
    fates: list[str] = field(default_factory=lambda: ["well"])
    running: Process | None = None
    calls: int = 0
    sold: int = 0

    def clock(self) -> float:
        """Stand in for the monotonic clock."""
        return self.now

    def stop_at_writes(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        """Stop a process before each write outside its own transactions; an execute wrapper."""
        outside = all(getattr(each, "_from_testcase", False) for each in connection.atomic_blocks)
        writes = sql.startswith(("UPDATE", "INSERT", "DELETE", "SAVEPOINT"))
        # What PostgreSQL claims is read by the same statement, which begins to write after this.
        claims = connection.vendor == "postgresql" and "settled_for" in sql
        if self.running and outside and (writes or claims):
            self.running.stop()
        return execute(sql, params, many, context)

    def consignment(self, announcement: Announcement, *rest: Any) -> Consignment:
        """Stand in for the preparation, which kills its process where the row is poison."""
        if announcement.pk in self.poison:
            self.killed[announcement.pk] += 1
            raise greenlet.GreenletExit
        return consignment(announcement, *rest)

    def enter(self, jobs: Sequence[Job]) -> dict[int, NotSent]:
        """Stand in for bulkhead and breaker."""
        if self.fates[self.calls % len(self.fates)] == "turned_away":
            self.calls += 1
            turned_away = NotSent("breaker_open", retry_after=1.0)
            return {job.announcement.pk: turned_away for job in jobs}
        for job in jobs:
            job.slot = "taken"
        return {}

    def leave(self, ended: Iterable[tuple[Job, Any, float]], **__: Any) -> None:
        """Stand in for giving the slots back."""
        for job, *_ in ended:
            job.slot = ""

    def perform(self, steps: Any, *limits: Any, **_: Any) -> Any:
        """Stand in for the transport."""
        kind, known = steps.gi_code.co_name, steps.gi_frame.f_locals
        steps.close()
        self._stop()
        fate = self.fates[self.calls % len(self.fates)]
        self.calls += 1
        if kind == "announce":
            if self.clock() > limits[-1]:
                return NotSent("send_forbidden")
            return self._bought(known["self"], known["consignment"], fate)
        if kind == "lookup":
            answer: Any = self.look_up(
                known["reference"], known["credentials"], fate, known["self"]
            )
        else:
            answer = self.void(known["purchase"], known["credentials"], fate, known["self"])
        sent = self.now
        self._stop()
        return Unknown("timeout") if self.now - sent > DEADLINE else answer

    def _bought(self, carrier: Carrier, consignment: Consignment, fate: str) -> Outcome:
        """Buy, and wait for the answer: where the call ends before its deadline, so does all."""
        window = carrier.settling - BEFORE_THE_END
        sent, before = self.now, self.sold
        answer = self.buy(carrier, consignment, fate, sent + DEADLINE + window)
        mine = [each for each in self.ledger[consignment.reference] if each.purchase > before]
        try:
            self._stop()
        finally:
            ended = min(self.now, sent + DEADLINE) + window
            for booking in mine:
                booking.young_until = min(booking.young_until, ended)
                if booking.at > sent:
                    booking.at = min(booking.at, ended)
        return Unknown("timeout") if self.now - sent > DEADLINE else answer

    def _stop(self) -> None:
        if self.running:
            self.running.stop()

    def buy(self, carrier: Carrier, consignment: Consignment, fate: str, latest: float) -> Outcome:
        """Serve a purchase; a booking is made, and listed, at `latest` at the latest."""
        reference = consignment.reference
        promise = carrier.promises.throttle_promises_nothing
        nothing: dict[str, Outcome] = {
            "refused": Refused("NO", "no"),
            "credentials": Refused("credentials", "HTTP 401", credentials=True),
            "conflict": Unknown("conflict"),
            "throttled": Throttled(1.0, promise),
            "unreachable": NotSent("unreachable"),
            "lost": Unknown("reset"),
        }
        if fate in nothing:
            self.refused.update([reference] if isinstance(nothing[fate], Refused) else [])
            self.unanswered[reference] += isinstance(nothing[fate], Unknown)
            return nothing[fate]
        self.unanswered[reference] += fate != "well"
        return self._book(carrier, consignment, fate, latest)

    def _book(
        self, carrier: Carrier, consignment: Consignment, fate: str, latest: float
    ) -> Outcome:
        ledger = self.ledger[consignment.reference]
        key = consignment.credentials["api_key"]
        if carrier.repeats == "dedup":
            same = [each for each in ledger if each.credentials == key]
            first = next((each for each in same if each.at <= self.now), None)
            if first:
                return first.label if fate == "well" else Unknown("timeout")
            if same and fate == "late":
                return Unknown("timeout")
            # What is on its way will find this one.
            ledger[:] = [each for each in ledger if each not in same]
        self.sold += 1
        several = carrier.code in LISTS_SEVERAL
        for number in range(2 if fate == TWICE and several else 1):
            name = f"{self.sold}-{number}"
            label = Announced(f"c{name}", f"T{name}", (Document("label", "pdf", PDF),))
            at = latest if fate == "late" else self.now
            booking = Booking(self.sold, key, label, at, latest)
            if fate == FORGOTTEN and several:
                booking.listed_from = self.now + FORGOTTEN_FOR
            ledger.append(booking)
        return label if fate == "well" else Unknown("timeout")

    def look_up(
        self, reference: str, credentials: Any, fate: str, carrier: Carrier
    ) -> LookupResult:
        """Serve a lookup: what those credentials have bought."""
        reasons = {"throttled": "throttled", "credentials": "credentials"}
        if fate in (*reasons, "refused", "conflict"):
            return Unknown(reasons.get(fate, "server_error"))
        if fate == "unreachable":
            return NotSent("unreachable")
        seen = [
            each.label
            for each in self.live(reference)
            if each.credentials == credentials["api_key"]
            and each.listed_from <= self.now
            and (fate in ("well", "lost") or each.young_until <= self.now)
        ]
        shown = tuple(seen if carrier.code in LISTS_SEVERAL else seen[:1])
        return Found(shown) if shown else Absent()

    def void(self, purchase: Purchase, credentials: Any, fate: str, carrier: Carrier) -> VoidResult:
        """Serve a void."""
        if fate == "unreachable":
            return NotSent("unreachable")
        if fate == "throttled":
            return Throttled(1.0, nothing_made=True)
        if fate == "credentials":
            return Refused("credentials", "HTTP 401", credentials=True)
        found = [
            each
            for each in self.live(purchase.reference)
            if each.label.tracking_number == purchase.tracking_number
        ]
        blind = carrier.repeats != "lookup"
        for booking in found:
            if fate in ("lost", "conflict"):
                booking.doubtful |= blind
            booking.shipped |= fate == "refused" and not booking.doubtful
        if fate in ("lost", "conflict"):
            return Unknown("reset")
        if not found or found[0].shipped or found[0].credentials != credentials["api_key"]:
            return Refused("NOT_VOIDABLE", "already voided, or on its way")
        found[0].voided = True
        return Voided() if fate == "well" else Unknown("timeout")

    def live(self, reference: str) -> list[Booking]:
        """Return what is booked by now and not voided, oldest first."""
        booked = [each for each in self.ledger.get(reference, []) if each.at <= self.now]
        return sorted((each for each in booked if not each.voided), key=lambda each: each.at)

    def run(
        self, rows: Iterable[int], work: Callable[[int], Any], dies_after: int | None = None
    ) -> None:
        """Have a process of its own do the work for each row; it dies at that stop, or at none."""
        for row in rows:
            process = Process(self, row, work)
            if process.go_on(10**6 if dies_after is None else dies_after):
                process.die()


def purchases(bookings: Collection[Booking]) -> int:
    """Return how many requests bought them."""
    return len({each.purchase for each in bookings})
