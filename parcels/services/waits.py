"""Threads of this process that wait for carriers, shared between accounts.

For the strategies whose workers wait: a thread that waits serves no other request. If a front holds
the clients, or views are coroutines, there is no limit here.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from django.conf import settings
from django.db import connection
from django.http import HttpResponse

import offload
from parcels import metrics
from parcels.models import Hold
from parcels.services.awaiting import PendingResponse, in_thread, or_late, views_are_coroutines

# Seconds after its last request until an account no longer counts as active. A minute: a shop that
# prints labels one after the other stays active, and soon after it stops the others have all
# threads again.
PRESENT = 60.0


class Waits:
    """At most so many threads at once; 0: no bound."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._waiting: Counter[int] = Counter()
        self._seen: dict[int, float] = {}
        self._lock = threading.Lock()
        self._inside = threading.local()

    @contextmanager
    def enter(self, account_id: int, *, buys: bool) -> Iterator[bool]:
        """Yield whether this thread may wait for the account; within itself it always may."""
        if not self._threads or getattr(self._inside, "thread", False):
            yield True
            return
        with self._lock:
            entered = self._may(account_id, buys=buys)
            self._waiting[account_id] += entered
        self._inside.thread = entered
        try:
            yield entered
        finally:
            self._inside.thread = False
            with self._lock:
                self._waiting[account_id] -= entered
                self._waiting += Counter()  # drops what is zero

    def _may(self, account_id: int, *, buys: bool) -> bool:
        """An account may take as many threads as it leaves free; to buy, all while it is alone."""
        now = monotonic()
        self._seen = {account: at for account, at in self._seen.items() if now - at < PRESENT}
        self._seen[account_id] = now
        free = self._threads - self._waiting.total()
        alone = buys and len(self._seen) == 1
        return alone or self._waiting[account_id] < free


WAITS = Waits(settings.WEB_THREADS)


@contextmanager
def thread_to_wait(account_id: int, *, buys: bool) -> Iterator[bool]:
    """Yield whether a thread of this process may wait for the account."""
    if offload.holds_clients() or views_are_coroutines():
        yield True
        return
    with WAITS.enter(account_id, buys=buys) as entered:
        if not entered:
            metrics.NOT_WAITED.labels("buys" if buys else "reads").inc()
        yield entered


def wait_here(
    hold: Hold,
    until: float,
    late: HttpResponse,
    late_now: Callable[[], HttpResponse],
    *,
    buys: bool,
) -> HttpResponse:
    """Wait for the hold's answer in this process, `until` a moment of the monotonic clock.

    Without a thread for the account, and in trouble, it is `late`; after the time `late_now`.
    """
    if views_are_coroutines():
        return PendingResponse(lambda: _wait_in_loop(hold, until, late_now), late)
    connection.close()  # no database connection is held while waiting
    with thread_to_wait(hold.account_id, buys=buys) as free:
        if not free:
            return late
        with metrics.waiting():
            answer = offload.wait(hold.pk, max(until - monotonic(), 0.0))
    return or_late(late_now, late) if answer is None else answer


async def _wait_in_loop(
    hold: Hold, until: float, late_now: Callable[[], HttpResponse]
) -> HttpResponse:
    with metrics.waiting():
        answer = await offload.wait_async(hold.pk, max(until - monotonic(), 0.0))
    return await in_thread(late_now) if answer is None else answer
