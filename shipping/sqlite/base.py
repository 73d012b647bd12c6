"""SQLite with a queue of writers, and connections that are kept for the next request.

SQLite has one writer. A thread that finds it busy sleeps in growing steps (1 ms to 100 ms) and
tries again: with 60 threads that want to write, most of the time none does, and a burst of 200
creates took 3 s at one core's half. Here the threads of a process queue for a lock first, and one
thread of each process asks for a lock on a file beside the database each millisecond: nobody falls
asleep for long while others go on, e.g. the worker behind two busy web processes.

And whoever closes the last connection to the file folds its log away: two fsyncs, 6 ms measured,
after every request of a process that has just one open; opening the next costs another. Closed
connections wait in a pool of the process instead, as psycopg's do.
"""

import fcntl
import os
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import Any

from django.db import OperationalError
from django.db.backends.sqlite3 import base

# Django begins each transaction by a statement.
WRITES = ("BEGIN", "INSERT", "UPDATE", "DELETE", "REPLACE")
# Idle connections kept per process: as many as ever run statements at once on a few cores.
KEPT = 16
# Seconds between two looks at the file's lock; only one thread of a process looks.
LOOK_EVERY = 0.001


class WriteLock:
    """The turn to write to one database, as seen by this process.

    The kernel gives the file's lock back when its process ends, however it does.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = Lock()
        self._file: int | None = None

    @contextmanager
    def turn(self, patience: float) -> Iterator[None]:
        """Wait for the turn; at the end pass it to the next writer.

        Raises: OperationalError: others had it for `patience` seconds, or the file can't be opened.
        """
        end = time.monotonic() + patience
        if not self._lock.acquire(timeout=patience):
            raise OperationalError("database is locked")
        try:
            try:
                if self._file is None:
                    self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                while True:
                    try:
                        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:
                        if time.monotonic() > end:
                            raise OperationalError("database is locked") from None
                        time.sleep(LOOK_EVERY)
            except OSError as error:
                raise OperationalError(f"no turn to write: {error}") from error
            yield
        finally:
            if self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_UN)
            self._lock.release()


# By process and file: neither a lock's state nor a connection survives a fork.
Key = tuple[int, str | os.PathLike[str]]
_turns: dict[Key, WriteLock] = {}
_idle: defaultdict[Key, list[sqlite3.Connection]] = defaultdict(list)


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's wrapper, with a turn around each transaction and each writing statement."""

    _turn = ExitStack()  # a transaction's until its end, else empty

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        if self._execute_in_turn not in self.execute_wrappers:
            self.execute_wrappers.insert(0, self._execute_in_turn)  # the others end with a context
        try:
            return _idle[os.getpid(), self.settings_dict["NAME"]].pop()
        except IndexError:  # none, or the database is in memory
            pass
        return super().get_new_connection(conn_params)

    def _execute_in_turn(
        self, execute: Any, sql: str, params: Any, many: bool, context: dict[str, Any]
    ) -> Any:
        needs_turn = sql.lstrip().upper().startswith(WRITES) and not self.is_in_memory_db()
        # In a transaction it has one; a cursor that outlives its connection fails anyway.
        if not needs_turn or self.connection is None or self.connection.in_transaction:
            return execute(sql, params, many, context)
        self._turn.close()  # a transaction's that SQLite has rolled back by itself
        key = os.getpid(), self.settings_dict["NAME"]
        lock = _turns.get(key) or _turns.setdefault(key, WriteLock(f"{key[1]}-turn"))
        with ExitStack() as turn:
            turn.enter_context(lock.turn(self.settings_dict["OPTIONS"].get("timeout", 5)))
            result = execute(sql, params, many, context)
            if sql.startswith("BEGIN"):
                self._turn = turn.pop_all()  # a transaction keeps it until its end
            return result

    def _commit(self) -> None:
        super()._commit()  # type: ignore[misc] # not in the stubs
        self._turn.close()

    def _rollback(self) -> None:
        try:
            super()._rollback()  # type: ignore[misc] # not in the stubs
        finally:
            self._turn.close()

    def _close(self) -> None:
        idle = _idle[os.getpid(), self.settings_dict["NAME"]]
        try:
            if self.is_in_memory_db() or self.connection is None or len(idle) >= KEPT:
                super()._close()  # type: ignore[misc] # not in the stubs
            else:
                if self.connection.in_transaction:
                    self.connection.rollback()
                idle.append(self.connection)
        finally:
            self._turn.close()
