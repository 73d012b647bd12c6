"""Run the sweeper: a plain loop in a separate process.

Not a periodic task of the broker that it guards. Several may run at once. A round that hangs ends
the process, with a traceback of each thread: its supervisor restarts it.
"""

import faulthandler
import logging
import os
import random
import signal
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, wraps
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore
from time import monotonic
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import connection
from django.db.models import QuerySet

from parcels.papers.files import is_configured
from parcels.services import (
    carrier_guards,
    forget,
    idempotency,
    partitions,
    restored,
    spares,
    sweep,
    void,
    webhooks,
)
from parcels.services import reconcile as reconciling
from parcels.services.announce import announce
from parcels.services.reconcile import reconcile
from parcels.services.restored import broker_identity
from parcels.services.tidy import tidy
from parcels.services.tracking_feed import Follower
from parcels.services.wake import WEBHOOK_QUEUE, send

log = logging.getLogger(__name__)

# Calls that the sweeper makes itself while the broker is down: enough to keep going, few enough
# to stay a safety net.
OWN_CALLS = 32
# Seconds. A statement ends after 12 (shipping.postgresql), and calls to carriers run beside a
# round: only a hanging database makes ten such statements in one round.
HUNG = 120.0
# Seconds after which a round in which something failed ends, and the next one begins.
LONGEST = 5.0
# Seconds between two looks for what is rare, where the last one found nothing: rows that are due
# minutes to days after they were written, and files that labels leave behind.
SELDOM = 10.0
# Seconds between two looks at the tracking feed: a parcel moves by the hour.
FOLLOW_EVERY = 3.0
# Seconds between two looks at partitions, which are there for months.
TEND_EVERY = 3600.0
WORK = {"announce": announce, "reconcile": reconcile}


def seconds(text: str) -> float:
    """Read an option's seconds: more than none, at most a day."""
    if not 0 < (value := float(text)) <= 86400:
        raise ArgumentTypeError(f"{text} is not above 0 and at most 86400 seconds")
    return value


class Command(BaseCommand):
    help = "Recover announcements after a lost message, a killed process or a lost store."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--every", type=seconds, default=1.0, help="seconds between rounds")
        parser.add_argument("--rounds", type=int, default=0, help="end after N rounds; 0: never")
        parser.add_argument("--hung", type=seconds, default=HUNG, help="longest round in seconds")

    def handle(self, *args: Any, every: float, rounds: int, hung: float, **options: Any) -> None:
        stop = SimpleQueue[None]()  # not an Event: a signal in its wait() would hang in its set()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.put(None))
        sweeper = Sweeper()
        done, told = 0, False
        while True:
            # A thread in C: it strikes whatever this process is stuck in.
            faulthandler.dump_traceback_later(hung, exit=True)
            if sweeper.round():
                try:
                    (settings.RUN_DIR / "sweeper.ready").write_text(str(os.getpid()))
                    told = False
                except OSError:
                    if not told:
                        log.exception("sweeper.ready can't be written")
                    told = True
            faulthandler.cancel_dump_traceback_later()
            done += 1
            if done == rounds:
                break
            # Jitter: several sweepers that were started together must not stay in step.
            with suppress(Empty):
                stop.get(timeout=every * random.uniform(0.75, 1.25))
                break
        sweeper.end()


class Sweeper:
    """One sweeper's state: its own callers, and which broker and database it saw last."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(OWN_CALLS, thread_name_prefix="sweeper")
        self.room = BoundedSemaphore(OWN_CALLS)
        self.broker: str | None = None
        self.timeline: str | None = None
        self.follower = Follower()
        self.following = BoundedSemaphore(1)
        self.tidying = BoundedSemaphore(1)
        self.rare = [
            seldom(sweep.end_overdue),
            seldom(self._sweep_second_labels),
            seldom(void.give_up),
            seldom(sweep.show_overdue_reviews),
            seldom(sweep.forget_old_holds),
            seldom(webhooks.forget_old),
            seldom(idempotency.forget_expired),
            seldom(forget.forget_old_documents),
            seldom(forget.forget_old_parcels),
            seldom(self._follow_tracking, FOLLOW_EVERY),
            seldom(self._tidy_files),
            seldom(partitions.tend, TEND_EVERY),
        ]
        self.end_leases = where_any(sweep.expired_leases, sweep.end_leases)
        self.usual = [
            where_any(void.due_announcements, self._sweep_cancellations),
            where_any(webhooks.forgotten_events, webhooks.spread_forgotten),
            where_any(webhooks.due_endpoints, self._sweep_deliveries),
            where_any(sweep.forgotten_holds, sweep.release_forgotten),
        ]

    def round(self) -> bool:
        """Do everything once; False when something failed, as while the database is down.

        One row or step that fails keeps no other waiting.
        """
        begun, fine = monotonic(), True
        for step in (
            self._notice_new_timeline,
            self.end_leases,
            self._notice_new_broker,
            carrier_guards.tend_breakers,
            self._wake_announcements,
            *self.usual,
            *self.rare,
        ):
            try:
                step()
            except Exception:
                # For any error (a database that restarts, a disk that is full) the round is tried
                # again.
                log.exception("%s failed", step.__name__)
                fine = False
            if not fine and monotonic() - begun > LONGEST:
                break  # a database that is away: each step would wait for it
        connection.close()
        return fine

    def end(self) -> None:
        """Wait for the calls under way: what was sent must be recorded."""
        self.pool.shutdown(wait=True)

    def _notice_new_timeline(self) -> None:
        timeline = restored.timeline()
        if timeline and timeline != self.timeline and restored.is_distrusted(timeline):
            count = restored.distrust_unsent()
            log.error("the database failed over: %s announcements are looked up first", count)
            restored.skip_ids()
        self.timeline = timeline

    def _notice_new_broker(self) -> None:
        """Wake everything when the broker has lost its queue, or was away: messages are missing."""
        identity = broker_identity()
        if identity and self.broker is not None and identity != self.broker:
            log.warning("the broker is new or available again: waking all that wait")
            sweep.wake_all_again()
        away = "" if self.broker is not None else None  # until it answers again
        self.broker = identity or away

    def _wake_announcements(self) -> None:
        lost = [
            due.id
            for due in sweep.due_announcements()
            if not send(due.task, [due.id], f"announce.{due.carrier}", due.account_id)
            and not self._do_myself(WORK[due.task], due.id)
        ]
        sweep.not_woken(lost)

    def _sweep_second_labels(self) -> int:
        """Look for labels that were sold in addition to the one that is kept, and void them.

        Return how many may be there.
        """
        for announcement_id in (looks := reconciling.due_late_looks()):
            self._do_myself(reconciling.look_again, announcement_id)
        for spare_id in (due := spares.due_spares()):
            self._do_myself(spares.settle_spare, spare_id)
        return len(looks) + len(due) + spares.count_open()

    def _sweep_cancellations(self) -> None:
        for announcement_id, carrier in void.due_voids():
            if not send("void", [announcement_id], f"announce.{carrier}"):
                self._do_myself(void.void, announcement_id)

    def _follow_tracking(self) -> None:
        self._beside(self.following, self.follower.catch_up)

    def _tidy_files(self) -> None:
        if is_configured():
            self._beside(self.tidying, tidy)

    def _sweep_deliveries(self) -> None:
        for delivery_id in webhooks.due_deliveries():
            if not send("deliver", [delivery_id], WEBHOOK_QUEUE):
                self._do_myself(webhooks.deliver, delivery_id)

    def _do_myself(self, work: Callable[[int], None], row_id: int) -> bool:
        """Do it in a thread of ours; False where all are at work."""
        return self._beside(self.room, work, row_id)

    def _beside(self, room: BoundedSemaphore, work: Callable[..., None], *given: int) -> bool:
        """Do it beside the round, which a feed or a storage that hangs must not delay.

        False where there is no room; it is taken before: a submit that fails has queued the work.
        """
        if not room.acquire(blocking=False):
            return False
        self.pool.submit(self._work, room, work, *given)
        return True

    def _work(self, room: BoundedSemaphore, work: Callable[..., None], *given: int) -> None:
        try:
            work(*given)
        except Exception:
            log.exception("%s%s failed", work.__qualname__, given)
        finally:
            room.release()  # first: closing may raise, where the database is away
            connection.close()


def seldom(step: Callable[[], int | None], every: float = SELDOM) -> Callable[[], None]:
    """Make a step that says how much it found: in each round while that is something."""
    again_at = 0.0

    @wraps(step)
    def look() -> None:
        nonlocal again_at
        if monotonic() >= again_at and not step():
            again_at = monotonic() + every * settings.TIME_SCALE

    return look


def where_any(rows: Callable[[], QuerySet[Any]], step: Callable[[], object]) -> Callable[[], None]:
    """Make a step that is left out where its rows are none, as in most rounds.

    The question is compiled once: that takes several times as long as to answer it. So the rows'
    conditions must ask the database for the time.
    """
    question = cache(lambda: rows().query.exists().get_compiler(connection=connection).as_sql())

    @wraps(step)
    def look() -> None:
        with connection.cursor() as cursor:
            cursor.execute(*question())
            found = cursor.fetchone()
        if found:
            step()

    return look
