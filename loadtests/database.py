"""What PostgreSQL says: its connections, and the rows that have not ended."""

from __future__ import annotations

from typing import Any

import psycopg

_CONNECTIONS = """
    SELECT count(*), count(*) FILTER (WHERE state = 'active') FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_HOLDS = "SELECT count(*) FROM parcels_hold WHERE released_at IS NULL AND deadline_at >= now()"
_STATES = "SELECT state, count(*) FROM parcels_announcement GROUP BY state"
OPEN_STATES = ("pending", "announcing", "unknown", "needs_review")


class Database:
    """A connection of our own, not counted."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, connect_timeout=5)

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def connections(self) -> tuple[int, int]:
        """Return how many connections there are, and how many of them work."""
        count, active = self._rows(_CONNECTIONS)[0]
        return count, active

    def holds(self) -> int:
        """Return how many clients the rows say are held."""
        return int(self._rows(_HOLDS)[0][0])

    def announcements(self) -> dict[str, int]:
        """Return how many announcements are in each state."""
        return dict(self._rows(_STATES))

    def _rows(self, query: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(query).fetchall()
