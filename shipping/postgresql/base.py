"""Django's engine with a check of pooled connections that costs no round trip.

CONN_HEALTH_CHECKS sends an empty query before each use of a connection: two of the dozen statements
that a label cost. A restart of the database leaves its mark on each idle connection, the server's
farewell or the end of the stream, and that can be seen from here. What this can't see, a server
that is reachable and silent, the empty query only found out after its time-out.
"""

from __future__ import annotations

import select
from typing import Any

import psycopg
from django.db.backends.postgresql import base


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's wrapper, which takes no connection from the pool that has ended there."""

    def ensure_connection(self) -> None:
        """Connect anew where a statement has closed the connection: it gave its server up."""
        if self.connection is not None and self.connection.closed and not self.in_atomic_block:
            self.close()
        super().ensure_connection()

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        while self.pool and _has_ended(connection):
            connection.close()
            self.pool.putconn(connection)  # which makes another in its place
            connection = super().get_new_connection(conn_params)
        return connection


def _has_ended(connection: psycopg.Connection[Any]) -> bool:
    """Tell whether an idle connection has something to read: a server has nothing else to say."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
