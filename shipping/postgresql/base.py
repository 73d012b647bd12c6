"""Django's engine with a check of pooled connections that seldom costs a round trip.

CONN_HEALTH_CHECKS sends an empty query before each use of a connection: two of the dozen statements
that a label cost. A restart of the database can be seen on each idle connection without a query:
there is the server's last message or the end of the stream. A server that is reachable but silent
can't be seen: so a connection that was idle for a while is tested, and when one fails, the others
of the same age are closed, too.
"""

import select
from time import monotonic
from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg_pool import ConnectionPool

from shipping.postgresql.bounds import BoundedConnection

# Seconds idle, after which a connection is asked before it is used: under load none is.
ASKED_AFTER = 5.0


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's wrapper, which takes no connection from the pool that has ended there."""

    def ensure_connection(self) -> None:
        """Connect again if a statement has closed the connection because its server was silent."""
        if self.connection is not None and self.connection.closed and not self.in_atomic_block:
            self.close()
        super().ensure_connection()

    def close_if_unusable_or_obsolete(self) -> None:
        """Close what a statement has closed; Django would wait for another connection to ask it."""
        if self.connection is not None and self.connection.closed:
            self.close()
        super().close_if_unusable_or_obsolete()

    def _close(self) -> None:
        if self.connection is not None:
            self.connection.idle_since = monotonic()
        super()._close()  # type: ignore[misc] # not in the stubs

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        while self.pool and not _works(connection):
            connection.close()
            self.pool.putconn(connection)  # which makes another in its place
            connection = super().get_new_connection(conn_params)
        return connection


def _works(connection: Any) -> bool:
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    # There is data to read: on an idle connection a server sends only its end.
    if poll.poll(0):
        return False
    if not isinstance(connection, BoundedConnection):
        return True
    if connection.made_at < connection.gave_up_at:
        return False
    if monotonic() - connection.idle_since > ASKED_AFTER:
        try:
            ConnectionPool.check_connection(connection)
        except psycopg.OperationalError:
            return False
    return True
