"""Wake a worker for an announcement. Best effort: the row and the sweeper guarantee the rest."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Iterable
from functools import partial

import redis
from celery import current_app
from django.conf import settings
from django.db import transaction
from redis.backoff import NoBackoff
from redis.retry import Retry

from carriers.redis_guard import Gone, RedisGuard
from parcels import metrics
from parcels.models import Announcement

log = logging.getLogger(__name__)

# After a failed wake-up the broker is left alone for this long (seconds): one request in a while
# pays the connection's time-out, not each. The sweeper wakes whatever is skipped.
QUIET = 2.0
_quiet_until = 0.0


def wake_after_commit(announcements: Iterable[Announcement], task: str = "announce") -> None:
    """Wake a worker for each announcement, once the transaction has committed."""
    for announcement in announcements:
        transaction.on_commit(
            partial(wake, task, announcement.pk, announcement.carrier), robust=True
        )


def wake(task: str, announcement_id: int, carrier: str) -> bool:
    """Send the task to the carrier's queue; False when the broker can't be reached."""
    return send(task, announcement_id, f"announce.{carrier}")


def send(task: str, row_id: int | str, queue: str) -> bool:
    """Send a task with a row's id; False when the broker can't be reached."""
    global _quiet_until
    if time.monotonic() < _quiet_until:
        return False
    try:
        if not _broker_answers():
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


def _broker_answers() -> bool:
    """Ask the broker for a sign of life, within a short time-out.

    Publishing has the worker's time-outs, of seconds: at a Redis that takes connections and never
    answers, a client would wait for them.
    """
    guard = _broker_guard(str(current_app.conf.broker_url or ""))
    if guard is None:
        return True
    try:
        return bool(guard.ask(guard.client.ping))
    except Gone:
        return False


@functools.cache
def _broker_guard(url: str) -> RedisGuard | None:
    if not url.startswith(("redis://", "rediss://")):
        return None
    timeout = settings.CARRIER_GUARD_TIMEOUT
    client = redis.Redis.from_url(
        url,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 0),
    )
    return RedisGuard(client, "broker", on_trouble=metrics.guard_trouble)


def broker_identity() -> str | None:
    """Return what changes when a Redis broker restarts empty; None when it can't be told.

    A broker that keeps its queue over a restart answers with another identity, too: that costs
    one superfluous round of wake-ups.
    """
    url = str(current_app.conf.broker_url or "")
    if not url.startswith(("redis://", "rediss://")):
        return None
    try:
        with redis.Redis.from_url(url, socket_timeout=1, socket_connect_timeout=1) as client:
            return str(client.info("server")["run_id"])
    except redis.RedisError:
        return None
