"""Whose turn it is to write: among the threads of a process, then among processes."""

from __future__ import annotations

import fcntl
import os
import time
from threading import Lock

from django.db import OperationalError

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

    def take(self, patience: float) -> None:
        """Wait for the turn.

        Raises: OperationalError: others had it for `patience` seconds, or the file can't be opened.
        """
        end = time.monotonic() + patience
        if not self._lock.acquire(timeout=patience):
            raise OperationalError("database is locked")
        try:
            while not self._lock_file():
                if time.monotonic() > end:
                    raise OperationalError("database is locked")
                time.sleep(LOOK_EVERY)
        except BaseException:
            self._lock.release()
            raise

    def give_up(self) -> None:
        """Pass the turn to the next writer."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._lock.release()

    def _lock_file(self) -> bool:
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise OperationalError(f"no turn to write: {error}") from error
        return True
