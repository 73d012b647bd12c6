"""SQLite with an orderly queue of writers, and a log that is not folded away at each request.

SQLite has one writer. Who finds it busy sleeps in growing steps (1 ms to 100 ms) and looks again:
with 60 threads wanting to write, most of the time nobody does, and a burst of 200 creates took
3 s at one core's half. Here the threads of a process queue for a lock first, so that only one per
process ever sleeps like that.
"""

from __future__ import annotations

import os
import sqlite3
from threading import Lock
from typing import Any

from django.db import OperationalError
from django.db.backends.sqlite3 import base

WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE")

_made = Lock()
# By process: neither a lock's state nor a connection survives a fork.
_turns: dict[tuple[int, str], Lock] = {}
_keepers: dict[tuple[int, str], sqlite3.Connection] = {}


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's wrapper, with a turn around each transaction and each writing statement."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._turn: Lock | None = None
        self.execute_wrappers.append(self._execute_in_turn)

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        if not self.is_in_memory_db():
            _keep_open(str(conn_params["database"]))
        return connection

    def _start_transaction_under_autocommit(self) -> None:
        self._take_turn()
        try:
            super()._start_transaction_under_autocommit()
        except BaseException:
            self._pass_turn()
            raise

    def _commit(self) -> None:
        super()._commit()  # a commit that finds the file busy can be tried again: keep the turn
        self._pass_turn()

    def _rollback(self) -> None:
        try:
            super()._rollback()
        finally:
            self._pass_turn()

    def _close(self) -> None:
        try:
            super()._close()
        finally:
            self._pass_turn()

    def _execute_in_turn(
        self, execute: Any, sql: str, params: Any, many: bool, context: dict[str, Any]
    ) -> Any:
        if self._turn is not None or not sql.lstrip().upper().startswith(WRITES):
            return execute(sql, params, many, context)
        self._take_turn()
        try:
            return execute(sql, params, many, context)
        finally:
            self._pass_turn()

    def _take_turn(self) -> None:
        if self._turn is not None or self.is_in_memory_db():
            return
        turn = _of_this_process(_turns, str(self.settings_dict["NAME"]), Lock)
        if not turn.acquire(timeout=self.settings_dict["OPTIONS"].get("timeout", 5)):
            raise OperationalError("database is locked")
        self._turn = turn

    def _pass_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.release()


def _keep_open(path: str) -> None:
    """Hold one idle connection per process.

    Whoever closes the last one to the file checkpoints and deletes the log: two fsyncs, 6 ms
    measured, after every request of a process that has just one open.
    """

    def connect() -> sqlite3.Connection:
        keeper = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        keeper.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        return keeper

    _of_this_process(_keepers, path, connect)


def _of_this_process(kept: dict[tuple[int, str], Any], path: str, make: Any) -> Any:
    with _made:
        return kept.setdefault((os.getpid(), path), None) or _make(kept, path, make)


def _make(kept: dict[tuple[int, str], Any], path: str, make: Any) -> Any:
    kept[os.getpid(), path] = thing = make()
    return thing
