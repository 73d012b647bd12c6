"""Wake a worker for an announcement. Best effort: the row and the sweeper guarantee the rest."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from functools import partial

from celery import current_app
from django.db import transaction

from parcels.models import Announcement
from parcels.services import broker

log = logging.getLogger(__name__)

# After a failed wake-up the broker is left alone for this long (seconds): one request in a while
# pays the connection's time-out, not each. The sweeper wakes whatever is skipped.
QUIET = 2.0
_quiet_until = 0.0


def wake_after_commit(announcements: Iterable[Announcement], task: str = "announce") -> None:
    """Wake a worker for each announcement, once the transaction has committed."""
    for announcement in announcements:
        transaction.on_commit(
            partial(
                wake, task, announcement.pk, announcement.carrier, announcement.account_id
            ),
            robust=True,
        )  # fmt: skip


def wake(task: str, announcement_id: int, carrier: str, account_id: int | None = None) -> bool:
    """Send the task to the carrier's queue; False when the broker can't be reached.

    Announcing takes turns by account; the other tasks are too few for that.
    """
    turn_of = account_id if task == "announce" else None
    return send(task, announcement_id, f"announce.{carrier}", turn_of)


def send(task: str, row_id: int | str, queue: str, account_id: int | None = None) -> bool:
    """Send a task with a row's id; False when the broker can't be reached.

    With an account, which of its rows a worker takes next is decided when a worker is free.
    """
    global _quiet_until
    if time.monotonic() < _quiet_until:
        return False
    try:
        if not broker.takes(queue, account_id, row_id):
            return False
        current_app.send_task(
            f"parcels.tasks.{task}", args=[row_id], queue=queue, ignore_result=True, retry=False
        )
    except Exception as error:
        # Whatever the transport raises: a request never fails because the broker is down.
        _quiet_until = time.monotonic() + QUIET
        log.warning("no wake-up for %s %s: %s", task, row_id, error)
        return False
    return True
