"""Closes connections exactly at their deadline, even if the carrier still sends bytes.

`requests` has no total time-out: its read time-out starts again with each byte, so a carrier that
sends one byte a second is never cut, neither in the headers nor in the body. One thread with a heap
of deadlines shuts the socket down instead: the reader then sees the end of the stream at once, in
threads, under gevent and under TLS alike. Each call costs one `dup` and one push to the heap.

Why a duplicate of the descriptor: `ssl` detaches the socket it wraps, and a descriptor's number may
be another connection's by the time the deadline strikes. `shutdown` acts on the connection, through
whichever descriptor, and the duplicate is ours until we close it.
"""

import contextlib
import heapq
import itertools
import os
import socket
import threading
import time

from carriers.errors import NoDescriptors, NoThread


class Watch:
    """One connection under watch; `cut` says whether the deadline struck."""

    __slots__ = ("_done", "_lock", "_socket", "cut")

    def __init__(self, duplicate: socket.socket, lock: threading.Condition) -> None:
        self.cut = False
        self._done = False
        self._socket = duplicate
        self._lock = lock

    def let_go(self) -> None:
        """End the watch: nothing is cut from here on. May be called twice."""
        with self._lock:
            self._done = True
            self._socket.close()

    def strike(self) -> None:
        """Shut the connection down; the caller holds the lock."""
        if self._done:
            return
        self.cut = True
        with contextlib.suppress(OSError):  # the carrier was faster: the connection is gone
            self._socket.shutdown(socket.SHUT_RDWR)


class Watchdog:
    """A heap of deadlines and the one thread that waits for the next of them."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._wake = threading.Condition(threading.Lock())
        self._heap: list[tuple[float, int, Watch]] = []
        self._order = itertools.count()  # equal deadlines must not compare watches
        self._thread: threading.Thread | None = None

    def watch(self, connection: socket.socket, ends_at: float) -> Watch:
        """Cut a connection at `ends_at` (`time.monotonic`), unless it is let go before."""
        with self._wake:
            if self._thread is None:
                self._start()
            try:
                watch = Watch(connection.dup(), self._wake)
            except OSError as error:
                raise NoDescriptors from error
            heapq.heappush(self._heap, (ends_at, next(self._order), watch))
            if self._heap[0][2] is watch:
                self._wake.notify()
        return watch

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="carrier-deadlines", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no thread left
            raise NoThread from error
        self._thread = thread

    def _run(self) -> None:
        with self._wake:
            while True:
                while self._heap and self._heap[0][0] <= time.monotonic():
                    heapq.heappop(self._heap)[2].strike()
                next_at = self._heap[0][0] if self._heap else None
                self._wake.wait(None if next_at is None else next_at - time.monotonic())


WATCHDOG = Watchdog()
# Servers fork after import: threads stay behind in the parent, and the lock may be held.
os.register_at_fork(after_in_child=WATCHDOG._reset)
