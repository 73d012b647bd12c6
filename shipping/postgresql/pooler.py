"""What a pooler in transaction mode can't keep is switched off, by what the connection shows.

A pooler gives each transaction another connection to the server. What a session keeps on its
server is lost then, or is somebody else's: prepared statements, and settings that a client brings.
PgBouncer refuses the settings; statements that are prepared fail at some later time.
"""

import logging
from typing import Any, ClassVar, Self

import psycopg

log = logging.getLogger(__name__)

# PgBouncer's words where it was not told to ignore them (`ignore_startup_parameters`).
REFUSED = "unsupported startup parameter"


class PooledConnection(psycopg.Connection[Any]):
    """A connection that finds out whether a pooler stands before the server."""

    prepares_behind_pooler: ClassVar[bool] = False
    told: ClassVar[bool] = False

    @classmethod
    def connect(cls, conninfo: str = "", **given: Any) -> Self:
        """Connect as psycopg does; without settings of the session where a pooler refuses them."""
        try:
            connection = super().connect(conninfo, **given)
        except psycopg.OperationalError as error:
            if REFUSED not in str(error):
                raise
            # Empty, and not left out: libpq would take PGOPTIONS.
            connection = super().connect(conninfo, **{**given, "options": ""})
        try:
            connection.switch_off()
        except BaseException:
            connection.close()
            raise
        return connection

    def switch_off(self) -> None:
        """Do without what a pooler can't keep, where there is one."""
        row = self.execute("SELECT pg_backend_pid()").fetchone()
        # A pooler makes this number up: it stands for whichever server is at work.
        if row is None or row[0] == self.info.backend_pid:
            return
        if not self.prepares_behind_pooler:
            self.prepare_threshold = None
        if not type(self).told:
            type(self).told = True
            log.warning(
                "a pooler stands before the database: nothing is prepared there, and "
                "statement_timeout and PGOPTIONS are its own or the role's"
            )
