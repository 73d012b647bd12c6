"""PostgreSQL connections on which no statement exceeds its time, whatever the network does.

The server applies `statement_timeout`, but an unreachable server can't report it. TCP's own limits
see a peer that is gone, but not one that is reachable and silent: a proxy whose server is away, a
machine that swaps. libpq has no limit to reading an answer. So the client has one, too: psycopg
waits for a statement's answer in one place, and takes the limit there. No thread, no system call
and no round trip more.
"""

import time
from typing import Any, ClassVar

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.pq import TransactionStatus

from shipping.postgresql.pooler import PooledConnection

# Seconds over `statement_timeout`: a server that can be reached ends a statement itself, says why,
# and the connection stays.
GRACE = 2.0
# Seconds between two checks of the clock; psycopg's default.
INTERVAL = 0.1
# Seconds without an acknowledgement, in milliseconds as libpq wants them. An idle connection is
# asked after 10 s, and is dead after three questions: the pool then has none that only look alive.
TCP = {
    "tcp_user_timeout": 10_000,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
# Uses of a statement after which it is prepared: the label's come thousands of times, and what came
# once may never come again.
PREPARED_AT = 2
# Seconds that a transaction may wait for its client: the locks of a machine that has vanished end.
IDLE_IN_TRANSACTION = 30


class BoundedConnection(PooledConnection):
    """A connection that is closed when a statement takes more than `longest` seconds.

    `gave_up_at` is when the last was (`time.monotonic`): those `made_at` an earlier time may be as
    silent.
    """

    longest: ClassVar[float | None] = None
    gave_up_at: ClassVar[float] = 0.0

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.made_at = self.idle_since = time.monotonic()

    def wait(self, gen: PQGen[RV], interval: float = INTERVAL, timeout: float | None = None) -> RV:
        """Wait for an answer; OperationalError if none comes in time, or it takes no writes."""
        try:
            return super().wait(gen, interval, timeout or self.longest)
        except psycopg.errors.ReadOnlySqlTransaction as error:
            # A full disk, or a switch to another server: it passes, as an absence does.
            raise psycopg.OperationalError(str(error)) from error
        except psycopg.OperationalError:
            if self.pgconn.transaction_status != TransactionStatus.ACTIVE or timeout:
                raise
            # Any answer is too late now, and the rollback would wait as long again.
            self.pgconn.finish()
            type(self).gave_up_at = time.monotonic()
            raise psycopg.OperationalError(
                f"no answer from the database within {self.longest:g} s"
            ) from None


def options(
    *,
    pool: int,
    statement_timeout: float,
    connect_timeout: int,
    prepare: str,
    server_options: str,
    several: bool = False,
) -> dict[str, Any]:
    """Return Django's OPTIONS; times in seconds, `statement_timeout` 0 for none.

    `prepare`: values are sent beside a statement and not in its text, and what comes again is
    planned once per connection: "1", "0", or "auto", where there is no pooler. `several`: of
    several hosts the one that takes writes.
    """
    bounds: dict[str, Any] = {"prepares_behind_pooler": prepare == "1"}
    chosen: dict[str, Any] = {
        **TCP,
        "connect_timeout": connect_timeout,
        "server_side_binding": prepare != "0",
        "prepare_threshold": None if prepare == "0" else PREPARED_AT,
        "pool": {
            "min_size": 1,
            "max_size": pool,
            # Longer than any statement of ours, shorter than clients' time-outs.
            "timeout": 15,
            # The pool doubles its pause between tries until it gives up; the next client that asks
            # for a connection starts again. The default of 300 s has pauses of two minutes.
            "reconnect_timeout": 10,
        },
    }
    if several:
        chosen["target_session_attrs"] = "read-write"
    longest = f"-c statement_timeout={statement_timeout * 1000:.0f}"
    chosen["options"] = f"{server_options} {longest}".strip()  # 0, too: the role may have a time
    if statement_timeout:
        bounds["longest"] = statement_timeout + GRACE
        idle = IDLE_IN_TRANSACTION * 1000
        chosen["options"] += f" -c idle_in_transaction_session_timeout={idle}"
    chosen["pool"]["connection_class"] = type("Bounded", (BoundedConnection,), bounds)
    return chosen
