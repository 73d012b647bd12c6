"""The broker's Redis, beside its queues: is it up, and which announcement is next.

A queue is first in, first out over all accounts. So a message says only that something waits: the
ids are in a list per account, and a worker takes from these in turn, for any message. Lost with the
queue or left over, a list costs nothing: each message also names its own announcements, and the
sweeper wakes what nobody took.

The Redis is the broker's own. With another broker it is the guards' Redis, which says nothing about
the broker: publishing shows whether that is up, and messages are sent even without that Redis.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis
from django.conf import settings

from carriers.redis_guard import Gone, RedisGuard
from offload.redis_clients import sync_client
from parcels import faults, metrics

_SCRIPTS = Path(__file__).parent
_PREFIX = "turns:"
_REDIS = ("redis://", "rediss://", "redis+sentinel://")


class Broker:
    """Asked with a short time-out, and once a second while it is gone."""

    def __init__(self, client: redis.Redis, *, has_queues: bool) -> None:
        self.has_queues = has_queues  # else they are another broker's
        self._guard = RedisGuard(client, "broker", on_trouble=metrics.guard_trouble)
        self._enter = client.register_script((_SCRIPTS / "turn_enter.lua").read_text())
        self._next = client.register_script((_SCRIPTS / "turn_next.lua").read_text())

    def answers(self) -> bool:
        """Check that it is up: publishing has the worker's time-outs, of seconds."""
        return self._ask(self._guard.client.ping) is not None

    def enter_turn(self, queue: str, account_id: int, announcement_ids: Sequence[int]) -> bool:
        """Have the announcements wait for their account's turn; also shows that it is up."""
        keys = [_PREFIX + queue, f"{_PREFIX}{queue}:{account_id}"]
        return self._ask(lambda: self._enter(keys, [account_id, *announcement_ids])) is not None

    def next_in_turn(self, queue: str) -> int | None:
        """Take the announcement whose turn it is; None where none waits."""
        found = self._ask(lambda: self._next([_PREFIX + queue], [f"{_PREFIX}{queue}:"]))
        return None if found is None else int(found)

    def _ask(self, question: Any) -> Any:
        try:
            return self._guard.ask(question)
        except Gone:
            return None


@functools.cache
def _broker_at(url: str) -> Broker:
    own = url.startswith(_REDIS)
    time_out = settings.CARRIER_GUARD_TIMEOUT
    client = sync_client(url if own else settings.GUARDS_URL, time_out=time_out)
    return Broker(client, has_queues=own)


def takes(queue: str, account_id: int | None, row_ids: Sequence[int | str]) -> bool:
    """Tell whether the broker answers; with an account, enter the rows for its turn."""
    broker = _broker_at(settings.BROKER_URL)
    if account_id is None or faults.is_off("turns"):
        return not broker.has_queues or broker.answers()
    entered = broker.enter_turn(queue, account_id, [int(each) for each in row_ids])
    return entered or not broker.has_queues


def next_in_turn(queue: str, own: int) -> int:
    """Take the announcement whose turn it is; `own`, the message's, where nothing is known."""
    if not queue or faults.is_off("turns"):
        return own
    return _broker_at(settings.BROKER_URL).next_in_turn(queue) or own


def broker_identity() -> str | None:
    """Return an identity that changes when a Redis broker restarts empty; None if unknown.

    A broker that keeps its queue over a restart has another identity, too: that costs one
    unnecessary round of wake-ups.
    """
    if not _broker_at(settings.BROKER_URL).has_queues:
        return None
    try:
        with sync_client(settings.BROKER_URL) as client:
            return str(client.info("server")["run_id"])
    except redis.RedisError:
        return None
