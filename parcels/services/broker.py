"""The broker's Redis, beside its queues: is it up, and which announcements are next.

A queue is first in, first out over all accounts. So a message is only a bell: the ids are in a list
per account, and a worker that hears one takes from these in turn, many at once. While a bell is on
its way no other is rung: in a burst there are far fewer messages than labels. Lost with the queue
or left over, a list costs nothing: each message also names its own announcements, and the sweeper
wakes what nobody took.

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
# Milliseconds after which a bell that no worker has heard is rung again by the next announcement:
# the workers are busy, or the message is lost.
BELL = 1000
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

    def enter_turn(
        self, queue: str, account_id: int, announcement_ids: Sequence[int], bell: int
    ) -> bool | None:
        """Have them wait for their account's turn; say whether to ring, None without Redis."""
        keys = [_PREFIX + queue, f"{_PREFIX}{queue}:{account_id}", f"{_PREFIX}{queue}:bell"]
        answer = self._ask(lambda: self._enter(keys, [account_id, bell, *announcement_ids]))
        return None if answer is None else bool(answer)

    def next_in_turn(self, queue: str, most: int) -> list[int]:
        """Take the announcements whose turn it is; none where none waits."""
        keys = [_PREFIX + queue, f"{_PREFIX}{queue}:bell"]
        found = self._ask(lambda: self._next(keys, [f"{_PREFIX}{queue}:", most]))
        return [int(each) for each in found or ()]

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


def enter(
    queue: str, account_id: int | None, row_ids: Sequence[int | str], *, bell: int = 0
) -> bool | None:
    """Enter an account's rows for its turn; say whether to send a message.

    None: the broker is away. With a `bell` (milliseconds) not while one is on its way. Without an
    account: only whether it answers.
    """
    broker = _broker_at(settings.BROKER_URL)
    ring: bool | None
    if account_id is None or faults.is_off("turns"):
        ring = broker.answers() or None if broker.has_queues else True
    else:
        ring = broker.enter_turn(queue, account_id, [int(each) for each in row_ids], bell)
    return True if ring is None and not broker.has_queues else ring


def next_in_turn(queue: str, most: int) -> list[int]:
    """Take at most so many announcements whose turn it is; none where nothing is known."""
    if not queue or faults.is_off("turns"):
        return []
    return _broker_at(settings.BROKER_URL).next_in_turn(queue, most)


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
