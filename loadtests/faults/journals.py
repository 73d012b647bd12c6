"""The journals: what clients and webhooks were told, what the database holds, what was sold."""

import json
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

# States in which an announcement still has to become something by itself.
UNFINISHED = ("pending", "announcing", "unknown")
# A parcel whose cancellation was asked for, or is being asked of the carrier.
CANCELLATION_REQUESTED, SUBMITTING_CANCELLATION = 1999, 2001


@dataclass(slots=True)
class Told:
    """One request as its client saw it. Times in seconds since the epoch; None: no answer came.

    `intent` names what the client wanted one of: requests that share it must make one purchase.
    """

    intent: str
    account: int
    sent_at: float
    synchronous: bool = False
    hung_up: bool = False
    answered_at: float | None = None
    status: int | None = None
    parcels: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""

    @property
    def seconds(self) -> float | None:
        """Return how long the client waited."""
        return None if self.answered_at is None else self.answered_at - self.sent_at

    @property
    def acknowledged(self) -> bool:
        """Tell whether the client was told that its parcel is stored."""
        return self.status is not None and 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class ParcelRow:
    """A parcel as stored; `intent` is its order number."""

    id: int
    account: int
    intent: str
    status: int
    tracking_number: str


@dataclass(frozen=True, slots=True)
class AnnouncementRow:
    """An announcement as stored."""

    id: int
    parcel: int
    carrier: str
    reference: str
    state: str
    tries: int
    tracking_number: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One try at a carrier, or a person's decision (kind "review")."""

    announcement: int
    kind: str
    outcome: str
    detail: str = ""
    duration: float = 0.0


@dataclass(frozen=True, slots=True)
class SpareRow:
    """A label beside the one that is kept: open, kept or gone."""

    announcement: int
    tracking_number: str
    state: str


@dataclass(frozen=True, slots=True)
class Event:
    """A status change: in the outbox, or as the shop's endpoint saw it."""

    id: str
    parcel: int
    status: int


@dataclass(frozen=True, slots=True)
class Booking:
    """A line of the ledger."""

    carrier: str
    reference: str
    shipment: str
    tracking_number: str
    event: str = "booked"


@dataclass(slots=True)
class Journals:
    """All of them, read after everything has come to rest."""

    told: list[Told] = field(default_factory=list)
    parcels: list[ParcelRow] = field(default_factory=list)
    announcements: list[AnnouncementRow] = field(default_factory=list)
    ledger: list[Booking] = field(default_factory=list)
    # API account (0, 1) → the database's id.
    accounts: Mapping[int, int] = field(default_factory=dict)
    attempts: list[AttemptRow] = field(default_factory=list)
    spares: list[SpareRow] = field(default_factory=list)
    # Status changes in the outbox, and those that the shops' endpoint has received.
    outbox: list[Event] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    # Event's id → what became of it: its delivery's state, "nobody" or "" (not looked at yet).
    deliveries: Mapping[str, str] = field(default_factory=dict)

    def of(self, prefix: str) -> "Journals":
        """Return what is about intents with a prefix, and every purchase that no row knows of."""
        others = {parcel.id for parcel in self.parcels if not parcel.intent.startswith(prefix)}
        not_ours = {row.reference for row in self.announcements if row.parcel in others}
        ids = {row.id for row in self.announcements if row.parcel in others}
        return Journals(
            self.told,
            [parcel for parcel in self.parcels if parcel.id not in others],
            [row for row in self.announcements if row.parcel not in others],
            [line for line in self.ledger if line.reference not in not_ours],
            self.accounts,
            [row for row in self.attempts if row.announcement not in ids],
            [row for row in self.spares if row.announcement not in ids],
            [row for row in self.outbox if row.parcel not in others],
            [seen for seen in self.events if seen.parcel not in others],
            self.deliveries,
        )

    @property
    def live(self) -> list[Booking]:
        """Return the bookings that were not voided."""
        voided = {(line.carrier, line.shipment) for line in self.ledger if line.event == "voided"}
        return [
            line
            for line in self.ledger
            if line.event == "booked" and (line.carrier, line.shipment) not in voided
        ]


class Database:
    """The deployment's database, read only; a connection per question, as the fault may kill it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT."""
        if self.url.startswith("sqlite"):
            path = urlsplit(self.url).path[1:]
            connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)
            try:
                return connection.execute(sql).fetchall()
            finally:
                connection.close()
        with psycopg.connect(self.url, connect_timeout=10) as opened:
            opened.read_only = True
            return opened.execute(sql).fetchall()

    def count(self, rows: str) -> int:
        """Count the rows of a table, `WHERE …`."""
        return int(self.ask(f"SELECT count(*) FROM {rows}")[0][0])  # noqa: S608 # our own

    def unfinished(self) -> int:
        """Count the announcements that still have to become something."""
        states = ", ".join(f"'{state}'" for state in UNFINISHED)
        return self.count(f"parcels_announcement WHERE state IN ({states})")

    def outstanding(self) -> int:
        """Count what still has to happen: announcements, cancellations and spare labels.

        Not those of what is under review, which wait for a person.
        """
        open_ = "NOT EXISTS (SELECT 1 FROM parcels_announcement WHERE state = 'needs_review' AND"
        cancelling = self.count(
            f"parcels_parcel p WHERE {open_} parcel_id = p.id)"
            f" AND status IN ({CANCELLATION_REQUESTED}, {SUBMITTING_CANCELLATION})"
        )
        spare = self.count(
            f"parcels_sparelabel s WHERE {open_} id = s.announcement_id) AND state = 'open'"
        )
        return self.unfinished() + cancelling + spare

    def parcels(self) -> list[ParcelRow]:
        sql = "SELECT id, account_id, order_number, status, tracking_number FROM parcels_parcel"
        return [ParcelRow(*row) for row in self.ask(sql)]

    def announcements(self) -> list[AnnouncementRow]:
        """Return every announcement with its parcel's tracking number."""
        sql = (
            "SELECT a.id, a.parcel_id, a.carrier, a.reference, a.state, a.tries,"
            " p.tracking_number, a.error"
            " FROM parcels_announcement a JOIN parcels_parcel p ON p.id = a.parcel_id"
        )
        return [AnnouncementRow(*row) for row in self.ask(sql)]

    def attempts(self) -> list[AttemptRow]:
        """Return every try, oldest first."""
        sql = (
            "SELECT announcement_id, kind, outcome, detail, duration"
            " FROM parcels_attempt ORDER BY id"
        )
        return [AttemptRow(*row) for row in self.ask(sql)]

    def spares(self) -> list[SpareRow]:
        sql = "SELECT announcement_id, tracking_number, state FROM parcels_sparelabel"
        return [SpareRow(*row) for row in self.ask(sql)]

    def outbox(self) -> list[Event]:
        """Return every status change that was written for webhooks."""
        rows = self.ask("SELECT id, parcel_id, status FROM parcels_webhookevent")
        return [Event(_uuid(id_), parcel, status) for id_, parcel, status in rows]

    def deliveries(self) -> dict[str, str]:
        """Return what became of each event; each account has one endpoint."""
        rows = self.ask(
            "SELECT e.id,"
            " coalesce(d.state, CASE WHEN e.spread_at IS NULL THEN '' ELSE 'nobody' END)"
            " FROM parcels_webhookevent e LEFT JOIN parcels_webhookdelivery d ON d.event_id = e.id"
        )
        return {_uuid(id_): state for id_, state in rows}

    def accounts(self, public_keys: Iterable[str]) -> dict[int, int]:
        """Return the account of each key, by the key's place."""
        rows = dict(self.ask("SELECT public_key, account_id FROM parcels_apikey"))
        return {place: int(rows[key]) for place, key in enumerate(public_keys)}


def _uuid(stored: object) -> str:
    """Return the id as webhooks show it: SQLite stores 32 hexadecimal digits."""
    return str(uuid.UUID(str(stored)))


def read_ledger(path: Path) -> list[Booking]:
    return [
        Booking(
            entry["carrier"],
            entry["reference"],
            entry["shipment_id"],
            entry["tracking_number"],
            entry["event"],
        )
        for entry in _lines(path)
    ]


def read_events(path: Path) -> list[Event]:
    """Read what the webhook receiver wrote down."""
    return [Event(**entry) for entry in _lines(path)]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the entries of a file; a torn last line is no entry, any other one an error."""
    *whole, _ = path.read_text().split("\n")
    yield from map(json.loads, whole)
