"""Wake a worker for an announcement. Best effort: the row and the sweeper guarantee the rest."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

from celery import current_app
from django.db import transaction

from parcels.models import Announcement
from parcels.services import broker

log = logging.getLogger(__name__)

WEBHOOK_QUEUE = "default"
# After a failed wake-up the broker is not called for this long (seconds): only one request in that
# time has to wait for the connection's time-out. The sweeper wakes the skipped rows.
QUIET = 2.0
# Seconds for RabbitMQ's confirm: some milliseconds, with a disk that is slow some hundred.
CONFIRM = 2.0
# Seconds that such a request may take: a connection, and publishing, with all their time-outs.
TRYING = 20.0
_quiet_until = 0.0
_away = False


def wake_after_commit(announcements: Iterable[Announcement], task: str = "announce") -> None:
    """Wake workers for these announcements, once the transaction has committed."""
    together: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for each in announcements:
        together[each.carrier, each.account_id].append(each.pk)
    for (carrier, account_id), ids in together.items():
        for some in [ids] if task == "announce" else [[each] for each in ids]:
            ring = partial(wake, task, some, carrier, account_id, bell=broker.BELL)
            transaction.on_commit(ring, robust=True)


def wake(
    task: str,
    announcement_ids: Sequence[int],
    carrier: str,
    account_id: int | None = None,
    *,
    bell: int = 0,
) -> bool:
    """Send the task to the carrier's queue; False when the broker can't be reached.

    Announcing takes several, and turns by account; the other tasks are too few for that. The
    sweeper's message is sent although a `bell` is on its way: that one may be lost.
    """
    turn_of = account_id if task == "announce" else None
    return send(task, announcement_ids, f"announce.{carrier}", turn_of, bell=bell)


def send(
    task: str,
    row_ids: Sequence[int | str],
    queue: str,
    account_id: int | None = None,
    *,
    bell: int = 0,
) -> bool:
    """Send a task with rows' ids; False when the broker can't be reached.

    With an account, which of its rows a worker takes next is decided when a worker is free; for
    `bell` see `broker.enter`.
    """
    global _quiet_until, _away
    if time.monotonic() < _quiet_until:
        return False
    try:
        ring = broker.enter(queue, account_id, row_ids, bell=bell)
        if not ring:
            return ring is not None
        if _away:  # this caller goes and looks; the others would pay as much
            _quiet_until = time.monotonic() + TRYING
        with current_app.producer_or_acquire() as producer:
            try:
                current_app.send_task(
                    f"parcels.tasks.{task}", args=row_ids, queue=queue, ignore_result=True,
                    retry=False, confirm_timeout=CONFIRM, producer=producer,
                )  # fmt: skip
            except Exception:
                # Closed politely it would wait twice more for a RabbitMQ that is silent.
                producer.connection.collect()
                raise
    except Exception as error:
        # For any error of the transport: a request never fails because the broker is down.
        _away, _quiet_until = True, time.monotonic() + QUIET
        log.warning("no wake-up for %s %s: %s", task, row_ids, error)
        return False
    if _away:
        _away, _quiet_until = False, 0.0
    return True
