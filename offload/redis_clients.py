"""How we speak to Redis: short time-outs, no hidden retries, many commands as one."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from typing import Any

import redis
import redis.asyncio
import redis.asyncio.retry
import redis.backoff
import redis.retry

from offload.batching import Batcher

logger = logging.getLogger("offload")

# Seconds for one answer of Redis. It answers in under a millisecond or it is in trouble; a worker
# that releases, and a client whose deadline has come, must not wait for longer than this.
SOCKET_TIMEOUT = 1.0
# Seconds that nobody is sent to a Redis that has just failed: at a black hole each caller would
# lose SOCKET_TIMEOUT. Well under DOUBT (waiting.py), so that what was not sent is asked for.
PAUSE = 0.5
# Commands in one pipeline: 256 answers of 10 KB are read in some milliseconds.
PIPELINE = 256

Command = tuple[str | bytes | int, ...]

_OPTIONS: dict[str, Any] = {
    "socket_timeout": SOCKET_TIMEOUT,
    "socket_connect_timeout": SOCKET_TIMEOUT,
    # RESP2: nothing here needs push messages, and Redis before 6 and its kin speak it too.
    "protocol": 2,
}


def address(url: str) -> str:
    """Return the URL as logs may show it: without user, password and options."""
    return re.sub("//[^/]*@", "//", url.partition("?")[0])


def sync_client(url: str) -> redis.Redis:
    # Retrying is the caller's decision: the default of ten tries would take seconds of a worker.
    retry = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
    return redis.Redis.from_url(url, retry=retry, **_OPTIONS)


def async_client(url: str) -> redis.asyncio.Redis:
    retry = redis.asyncio.retry.Retry(redis.backoff.NoBackoff(), 0)
    client: redis.asyncio.Redis = redis.asyncio.Redis.from_url(url, retry=retry, **_OPTIONS)
    return client


class RedisTrouble(Exception):
    """Redis gave no answer, or has just failed and is left alone for a moment."""


class Pipe:
    """Send what many holds ask of Redis as few pipelines over one connection.

    A pool would open a connection for each of a thousand clients that arrive at once.
    """

    def __init__(self, client: redis.asyncio.Redis, on_trouble: Callable[[str], None]) -> None:
        self._client = client
        self._on_trouble = on_trouble
        self._batches: Batcher[Command, Any] = Batcher(self._execute, most=PIPELINE)
        self._paused_until = 0.0

    def ask(self, *command: str | bytes | int) -> asyncio.Future[Any]:
        """Return the future of the command's reply; it raises RedisTrouble."""
        return self._batches.ask(command)

    async def _execute(self, commands: list[Command]) -> list[Any]:
        if time.monotonic() < self._paused_until:
            raise RedisTrouble("left alone after a failure")
        try:
            pipeline = self._client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            return await pipeline.execute()
        except (redis.RedisError, OSError, EOFError, TimeoutError) as error:
            self._paused_until = time.monotonic() + PAUSE
            trouble = RedisTrouble(repr(error))
            self._batches.fail_queued(trouble)
            self._on_trouble(repr(error))
            raise trouble from error
