"""Wake a worker for announcements, and tell it which are next.

Best effort: the row and the sweeper guarantee the rest.

A queue is first in, first out over all accounts. So a message is only a bell: the ids are in a list
per account, and a worker that hears one takes from these in turn, many at once. While a bell is on
its way no other is rung. Lost with the queue or left over, a list costs nothing: each message also
names its own announcements, and the sweeper wakes what nobody took.

The lists are in the broker's own Redis. With another broker they are in the guards' Redis, which
says nothing about the broker: publishing does, and messages are sent even without that Redis.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from celery import current_app
from django.conf import settings
from django.db import transaction

from carriers import registry
from carriers.redis_guard import Gone, RedisGuard
from offload.redis_clients import sync_client
from parcels import metrics
from parcels.models import Announcement

log = logging.getLogger(__name__)

WEBHOOK_QUEUE = "default"
# After a failed wake-up the broker is not called for this long (seconds): only one request in that
# time has to wait for the connection's time-out. The sweeper wakes the skipped rows.
QUIET = 2.0
# Seconds for RabbitMQ's confirm: some milliseconds, with a disk that is slow some hundred.
CONFIRM = 2.0
# Seconds that such a request may take: a connection, and publishing, with all their time-outs.
TRYING = 20.0
# Milliseconds after which an unheard bell is rung again: the workers are busy, or it is lost.
BELL = 1000
# A queue with so many messages, of 1 KB each, gets no more: with no worker they'd fill the Redis.
FULL = 10_000
# Milliseconds for which a worker is believed to listen after it asked: it asks again after 50. Was
# it killed, or does it claim for longer, a bell is rung again.
LISTENS = 250
_PREFIX = "turns:"
REDIS = ("redis://", "rediss://", "redis+sentinel://")
_quiet_until = 0.0
_away = False


@dataclass(frozen=True, slots=True)
class _Broker:
    """Asked with a short time-out, and once a second while it is gone."""

    guard: RedisGuard
    enter: Any
    next: Any
    has_queues: bool  # else they are another broker's


@cache
def _broker_at(url: str) -> _Broker:
    own = url.startswith(REDIS)
    client = sync_client(
        url if own else settings.GUARDS_URL, time_out=settings.CARRIER_GUARD_TIMEOUT
    )
    enter, following = (
        client.register_script((Path(__file__).parent / name).read_text())
        for name in ("turn_enter.lua", "turn_next.lua")
    )
    guard = RedisGuard(client, "broker", on_trouble=metrics.guard_trouble)
    return _Broker(guard, enter, following, has_queues=own)


def wake_after_commit(announcements: Iterable[Announcement], task: str = "announce") -> None:
    """Wake workers for these, once the transaction has committed; a removed carrier has none."""
    together: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for each in (one for one in announcements if one.carrier in registry.CARRIERS):
        together[f"announce.{each.carrier}", each.account_id].append(each.pk)
    for (queue, account_id), ids in together.items():
        ring = partial(send, task, ids, queue, account_id, bell=BELL)
        transaction.on_commit(ring, robust=True)


def send(
    task: str,
    row_ids: Sequence[int | str],
    queue: str,
    account_id: int | None = None,
    *,
    bell: int = 0,
    first: bool = False,
) -> bool:
    """Send a task with rows' ids; False when the broker can't be reached.

    Announcing takes several, and turns by account: those sent with `first`, then the oldest. With a
    `bell` (ms) no message is sent while one is on its way; the sweeper's is: that one may be lost.
    None is sent to a queue that is FULL: as with one that is lost, the sweeper tries again.
    """
    global _quiet_until, _away
    if time.monotonic() < _quiet_until:
        return False
    try:
        broker = _broker_at(settings.BROKER_URL)
        try:
            if task == "announce" and account_id is not None:
                names = f"{_PREFIX}{queue}"
                keys = [names, f"{names}:{account_id}", f"{names}:bell", queue]
                given = [account_id, bell, int(first), FULL, *row_ids]
                if not broker.guard.ask(lambda: broker.enter(keys, given)):
                    return True
            elif broker.has_queues:  # publishing has time-outs of seconds
                length = broker.guard.ask(lambda: broker.guard.client.llen(queue))
                if length >= FULL:
                    return True
        except Gone:
            if broker.has_queues:
                return False
        if _away:  # this caller goes and looks; the others would pay as much
            _quiet_until = time.monotonic() + TRYING
        with current_app.producer_or_acquire() as producer:
            try:
                current_app.send_task(
                    f"parcels.tasks.{task}", args=row_ids, queue=queue, ignore_result=True,
                    retry=False, confirm_timeout=CONFIRM, producer=producer,
                )  # fmt: skip
            except Exception:
                producer.connection.collect()  # close() would wait twice for a silent RabbitMQ
                raise
    except Exception as error:
        # For any error of the transport: a request never fails because the broker is down.
        _away, _quiet_until = True, time.monotonic() + QUIET
        metrics.guard_trouble("broker")
        log.warning("no wake-up for %s %s: %s", task, row_ids, error)
        return False
    _away, _quiet_until = False, 0.0
    return True


def next_in_turn(queue: str, most: int, *, listens: bool = False) -> list[int]:
    """Take at most so many announcements whose turn it is; none where nothing is known.

    A worker that `listens` asks again within LISTENS, unless it has got as many as it wanted: no
    bell is rung until then.
    """
    if not queue:
        return []
    broker = _broker_at(settings.BROKER_URL)
    keys = [f"{_PREFIX}{queue}", f"{_PREFIX}{queue}:bell"]
    given = [f"{_PREFIX}{queue}:", most, LISTENS if listens else 0]
    try:
        found = broker.guard.ask(lambda: broker.next(keys, given))
    except Gone:
        return []
    return [int(each) for each in found or ()]
