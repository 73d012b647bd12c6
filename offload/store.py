"""What Django stores: late answers and releases. Errors are logged, never raised."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import cast

import redis
from django.db import Error as DatabaseError

from offload import conf
from offload.answer import Answer, encode_answer, pack
from offload.eager import Eager
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

logger = logging.getLogger("offload")

TROUBLE = (redis.RedisError, OSError, DatabaseError)

# Stands in for us in tests: offload.testing.eager.
eager: Eager | None = None
_paused_until = 0.0
_in_trouble = False


_one_at_a_time = threading.Lock()
_client = cache(sync_client)


def client(url: str) -> redis.Redis:
    """Return this process's client; its pool is safe for threads, greenlets and forks."""
    # Two threads that come first together would create two clients, and the one that is dropped
    # would close its pool while a thread uses it.
    with _one_at_a_time:
        return _client(url)


def store_late(ticket: str, late: Answer, *, request_id: str = "") -> bool:
    """Store the late answer where the hub finds it; False if the store is in trouble.

    With the front's name for the request the ticket is found again when the hub is lost, and for
    longer than that lives: a front gives a silent hub up late.
    """
    now = time.time()
    read = read_ticket(conf.current().secret, ticket, now=now)
    life = int(read.deadline - now + TICKET_GRACE) + 1
    values = [(late_key(read.nonce), pack(late), life)]
    if is_request_id(request_id):
        values.append((request_key(request_id), ticket.encode(), life + conf.current().answer_ttl))
    return _write("a late answer is not stored", values)


def publish(answers: Mapping[str, Answer]) -> bool:
    """Store answers and send wake-ups, in one transaction; False if the store is in trouble.

    The first release counts, before a hold as after it.
    """
    if eager is not None:
        return eager.publish(answers)
    life = conf.current().answer_ttl
    values = [(answer_key(key), encode_answer(answer), life) for key, answer in answers.items()]
    # For workers that wait for one hold: on the common channel each would get all messages.
    channels = [
        (name, key) for key in answers for name in (RELEASED_CHANNEL, released_channel(key))
    ]
    return _write(f"{len(answers)} releases are not sent", values, channels)


def delete(hold_ids: Iterable[str]) -> bool:
    """Delete the stored answers; False if the store is in trouble."""
    keys = [answer_key(hold_id) for hold_id in hold_ids]
    return _write(f"{len(keys)} answers are not deleted", deleted=keys)


def forget_trouble() -> None:
    """Try the store again at once."""
    global _paused_until
    _paused_until = 0.0


def read(*keys: str) -> list[bytes | None]:
    """Return what is stored under the keys; raises one of TROUBLE."""
    if in_database():
        from offload.postgresql.writing import read as read_rows

        return read_rows(keys)
    return cast("list[bytes | None]", client(conf.current().redis_url).mget(keys))


def in_database() -> bool:
    """Say whether the store is the project's own PostgreSQL, which tells of a release at commit."""
    return conf.current().store == "postgresql"


def url() -> str:
    """Return the store's address, for processes and loops of their own."""
    if in_database():
        from offload.postgresql.writing import url as database_url

        return database_url()
    return conf.current().redis_url


def _write(
    trouble: str,
    values: Sequence[tuple[str, bytes, int]] = (),
    wake_ups: Sequence[tuple[str, str]] = (),
    deleted: Sequence[str] = (),
) -> bool:
    global _paused_until, _in_trouble
    if time.monotonic() < _paused_until:
        return False
    try:
        if in_database():
            from offload.postgresql.writing import write

            write(values, wake_ups, deleted)
        else:
            _write_to_redis(values, wake_ups, deleted)
    except TROUBLE as error:
        _paused_until = time.monotonic() + PAUSE
        _in_trouble = True
        logger.warning("%s, %s is in trouble: %r", trouble, address(url()), error)
        return False
    if _in_trouble:
        _in_trouble = False
        logger.warning("%s answers again", address(url()))
    return True


def _write_to_redis(
    values: Sequence[tuple[str, bytes, int]],
    wake_ups: Sequence[tuple[str, str]],
    deleted: Sequence[str],
) -> None:
    pipeline = client(conf.current().redis_url).pipeline(transaction=True)
    for key, value, life in values:
        pipeline.set(key, value, ex=life, nx=True)
    for channel, payload in wake_ups:
        pipeline.publish(channel, payload)
    if deleted:
        pipeline.delete(*deleted)
    pipeline.execute()
