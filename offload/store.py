"""What Django writes to Redis: late answers and releases. Trouble is logged, never raised."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, cast

import redis
from redis.client import Pipeline

from offload import conf
from offload.answer import Answer, encode_answer, pack
from offload.protocol import (
    RELEASED_CHANNEL,
    TICKET_GRACE,
    answer_key,
    is_request_id,
    late_key,
    read_ticket,
    released_channel,
    request_key,
)
from offload.redis_clients import PAUSE, address, sync_client

if TYPE_CHECKING:
    from offload.testing import Eager

logger = logging.getLogger("offload")

# Stands in for us in tests: offload.testing.eager.
eager: Eager | None = None
_paused_until = 0.0
_in_trouble = False


_one_at_a_time = threading.Lock()
_client = cache(sync_client)


def client(url: str) -> redis.Redis:
    """Return this process's client; its pool is safe for threads, greenlets and forks."""
    # Two threads that come first at once would make two, and a client closes its pool when it is
    # forgotten: under the one thread's hands.
    with _one_at_a_time:
        return _client(url)


def store_late(ticket: str, late: Answer, *, request_id: str = "") -> bool:
    """Store the late answer where the hub finds it; False if Redis is in trouble.

    With the front's name for the request the ticket is found again when the hub is lost.
    """
    now = time.time()
    read = read_ticket(conf.current().secret, ticket, now=now)
    life = int(read.deadline - now + TICKET_GRACE) + 1

    def write(pipeline: Pipeline) -> None:
        pipeline.set(late_key(read.nonce), pack(late), ex=life)
        if is_request_id(request_id):
            pipeline.set(request_key(request_id), ticket, ex=life)

    return _write(write, "a late answer is not stored")


def publish(answers: Mapping[str, Answer]) -> bool:
    """Store the answers and wake who waits, in one transaction; False if Redis is in trouble."""
    if eager is not None:
        return eager.publish(answers)
    life = conf.current().answer_ttl

    def write(pipeline: Pipeline) -> None:
        for hold_id, answer in answers.items():
            # The first release counts, before a hold as after it.
            pipeline.set(answer_key(hold_id), encode_answer(answer), ex=life, nx=True)
            pipeline.publish(RELEASED_CHANNEL, hold_id)
            # For workers that wait for one hold: of the common channel each would hear all.
            pipeline.publish(released_channel(hold_id), hold_id)

    return _write(write, f"{len(answers)} releases are not sent")


def delete(hold_ids: Iterable[str]) -> bool:
    """Delete the stored answers; False if Redis is in trouble."""
    keys = [answer_key(hold_id) for hold_id in hold_ids]

    def write(pipeline: Pipeline) -> None:
        pipeline.delete(*keys)

    return _write(write, f"{len(keys)} answers are not deleted")


def forget_trouble() -> None:
    """Try Redis again at once."""
    global _paused_until
    _paused_until = 0.0


def read(*keys: str) -> list[bytes | None]:
    """Return what Redis has under the keys; raises redis.RedisError."""
    return cast("list[bytes | None]", client(conf.current().redis_url).mget(keys))


def _write(fill: Callable[[Pipeline], None], trouble: str) -> bool:
    global _paused_until, _in_trouble
    if time.monotonic() < _paused_until:
        return False
    url = conf.current().redis_url
    try:
        pipeline = client(url).pipeline(transaction=True)
        fill(pipeline)
        pipeline.execute()
    except (redis.RedisError, OSError) as error:
        _paused_until = time.monotonic() + PAUSE
        _in_trouble = True
        logger.warning("%s, %s is in trouble: %r", trouble, address(url), error)
        return False
    if _in_trouble:
        _in_trouble = False
        logger.warning("%s answers again", address(url))
    return True
