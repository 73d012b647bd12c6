"""What the rows say, read-only and past the application: it may have no worker to spare."""

import contextlib
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import psycopg

# Not yet ended, as parcels.models.announcement has it; a test compares the two.
OPEN = ("pending", "announcing", "unknown", "needs_review")
# Seconds: a figure that comes later than the next sample is no use.
TIME_OUT = 0.5

# Those of OPEN, by the partial index that has them: for states of two the whole table is read.
_QUEUE = " UNION ALL ".join(
    "SELECT carrier, state, count(*), min(date_created) FROM parcels_announcement "  # noqa: S608 # our own words
    f"WHERE state IN ({states}) GROUP BY carrier, state"
    for states in ("'pending', 'unknown'", "'announcing'", "'needs_review'")
)
_HOLDS = "SELECT count(*) FROM parcels_hold WHERE released_at IS NULL AND deadline_at > {now}"
_STATES = "SELECT state, count(*) FROM parcels_announcement GROUP BY state"
# The name of the connections that look on; a bench has two at times.
LOOKING = "figures"
# But for those, and PostgreSQL's own.
_CONNECTIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND backend_type = 'client backend' AND application_name <> %s"
)


@dataclass(frozen=True)
class Rows:
    """Announcements by carrier and state, the oldest pending one's age in seconds, open holds.

    Connections are clients' to this PostgreSQL database, without those that look.
    """

    queues: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    oldest: float = 0.0
    holds: int = 0
    connections: int | None = None

    @property
    def open(self) -> int:
        """Return how many announcements have not ended."""
        return sum(sum(states.values()) for states in self.queues.values())

    @property
    def to_come(self) -> int:
        """Return how many of these a process goes on with: those under review wait for a person."""
        return self.open - sum(states.get("needs_review", 0) for states in self.queues.values())


def database_of(url: str) -> "SQLite | PostgreSQL":
    """Return the reader for an address as `DATABASE_URL` has it."""
    if url.startswith("sqlite:///"):
        return SQLite(url.removeprefix("sqlite:///"))
    return PostgreSQL(url)


class SQLite:
    """Opened anew for each look: nothing of ours keeps the write-ahead log from being folded."""

    def __init__(self, path: str) -> None:
        self._uri = f"file:{path}?mode=ro"

    def read(self) -> Rows | None:
        """Return what there is now; None while the file is being made."""
        try:
            with contextlib.closing(
                sqlite3.connect(self._uri, uri=True, timeout=TIME_OUT)
            ) as connection:
                return _rows(connection, "strftime('%Y-%m-%d %H:%M:%f', 'now')")
        except sqlite3.Error:
            return None


class PostgreSQL:
    """One kept connection, made again when it breaks."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection[Any] | None = None

    def read(self) -> Rows | None:
        """Return what there is now; None while the server is away."""
        try:
            rows = _rows(self._connected(), "now()")
            [(connections,)] = self._connected().execute(_CONNECTIONS, [LOOKING])
        except psycopg.Error:
            self.close()
            return None
        return replace(rows, connections=connections)

    def states(self) -> dict[str, int]:
        """Return how many announcements are in each state, those that have ended among them."""
        return dict(self._connected().execute(_STATES).fetchall())

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            options = f"-c statement_timeout={round(TIME_OUT * 1000)}"
            self._connection = psycopg.connect(
                self._url,
                autocommit=True,
                connect_timeout=2,
                options=options,
                application_name=LOOKING,
            )
        return self._connection


def _rows(connection: Any, now: str) -> Rows:
    queues: dict[str, dict[str, int]] = {}
    oldest = 0.0
    for carrier, state, length, first in connection.execute(_QUEUE):
        queues.setdefault(carrier, {})[state] = length
        if state == "pending":
            moment = datetime.fromisoformat(str(first))  # SQLite's is a text, without a zone
            age = datetime.now(UTC) - (moment if moment.tzinfo else moment.replace(tzinfo=UTC))
            oldest = max(oldest, age.total_seconds())
    [(holds,)] = connection.execute(_HOLDS.format(now=now))
    return Rows(queues, oldest, holds)
