"""Redis clients: short time-outs, no hidden retries, many commands in one pipeline."""

import asyncio
import itertools
import logging
import re
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import cache
from typing import Any, Protocol

import redis
import redis.asyncio
import redis.asyncio.retry
import redis.asyncio.sentinel
import redis.backoff
import redis.retry
import redis.sentinel

from offload.batching import Batcher
from offload.keys import RELEASED_CHANNEL
from offload.sentinel import watched

logger = logging.getLogger("offload")

# Seconds for one answer of Redis. It answers in under a millisecond or it is in trouble; a worker
# that releases, and a client whose deadline has come, must not wait for longer than this.
SOCKET_TIMEOUT = 1.0
# Seconds without calls to a Redis that has just failed: if it drops packets, each caller would lose
# SOCKET_TIMEOUT. Well under DOUBT (doubts.py), so that the app is asked for what was not sent.
PAUSE = 0.5
# Commands in one pipeline: 256 answers of 10 KB are read in some milliseconds.
PIPELINE = 256
UNBOUNDED = 2**31
# Keys of one MGET: each of its replies has SOCKET_TIMEOUT, and answers may be large.
KEYS_IN_A_REPLY = 32

_one_at_a_time = threading.Lock()

Command = tuple[str | bytes | int, ...]


def address(url: str) -> str:
    """Return the URL as logs may show it: without user, password and options."""
    place, _, options = url.partition("?")
    if "@" in options:  # a password has either the ? or the @
        return re.sub("//.*", "//…", place)
    return re.sub("//.*@", "//", place)


# Each error in one line: `repr` of redis-py 8's own leaves out what the server or system said.
reason: Callable[[BaseException], str] = BaseException.__repr__


def sync_client(url: str, *, time_out: float = SOCKET_TIMEOUT) -> redis.Redis:
    """Return a client; each operation of its sockets ends within `time_out` seconds."""
    client: redis.Redis = _client(redis, url, time_out)
    return client


_created_once = cache(sync_client)


@cache
def shared_client(url: str) -> redis.Redis:
    """Return this process's client; its pool is safe for threads, greenlets and forks."""
    # `functools.cache` may call this in two threads at once. Each would create a client, and the
    # one that is dropped would close its pool while a thread uses it.
    with _one_at_a_time:
        return _created_once(url)


def async_client(url: str) -> redis.asyncio.Redis:
    client: redis.asyncio.Redis = _client(redis.asyncio, url, SOCKET_TIMEOUT)
    return client


def _client(library: Any, url: str, time_out: float) -> Any:
    """Return a client of redis or of redis.asyncio: they have the same names."""
    options = {
        "socket_timeout": time_out,
        "socket_connect_timeout": time_out,
        # RESP2: nothing here needs push messages, and Redis before 6 and its kin speak it too.
        "protocol": 2,
        # A process has as many as threads that wait in it: redis-py 8 refuses the 101st.
        "max_connections": UNBOUNDED,
        # Retrying is the caller's decision: the default of ten tries takes seconds of a worker.
        "retry": library.retry.Retry(redis.backoff.NoBackoff(), 0),
    }
    place = watched(url)
    if place is None:
        return library.Redis.from_url(url, **options)
    sentinel = library.sentinel.Sentinel(place.sentinels, sentinel_kwargs=options, **options)
    return sentinel.master_for(place.name, **place.login)


class StoreTrouble(Exception):
    """The store gave no answer, or has just failed and is not called for a moment."""


class Pipe:
    """Combine the store requests of many holds into few, over one connection.

    A pool would open a connection for each of a thousand clients that arrive at once.
    """

    def __init__(
        self,
        run: Callable[[list[Command]], Awaitable[list[Any]]],
        trouble: tuple[type[BaseException], ...],
        on_trouble: Callable[[str], None],
    ) -> None:
        self._run = run
        self._trouble = trouble
        self._on_trouble = on_trouble
        self._batches: Batcher[Command, Any] = Batcher(self._execute, most=PIPELINE)
        self._paused_until = 0.0

    def ask(self, *command: str | bytes | int) -> asyncio.Future[Any]:
        """Return the future of the command's reply; it raises StoreTrouble.

        The commands are Redis': GET, MGET, PING, and SET with NX and EX.
        """
        return self._batches.ask(command)

    async def _execute(self, commands: list[Command]) -> list[Any]:
        if time.monotonic() < self._paused_until:
            raise StoreTrouble("left alone after a failure")
        try:
            return await self._run(commands)
        except self._trouble as error:
            self._paused_until = time.monotonic() + PAUSE
            trouble = StoreTrouble(reason(error))
            self._batches.fail_queued(trouble)
            self._on_trouble(reason(error))
            raise trouble from error


class AsyncStore(Protocol):
    """The interface of a store for Waiters, in their event loop."""

    trouble: tuple[type[BaseException], ...]
    pipe: Pipe

    def wake_ups(self, idle: float) -> AsyncGenerator[str | None]:
        """Give None when it listens, then the hold ids; look after `idle` seconds if it is there.

        Raises one of `trouble` when it is not.
        """
        ...

    async def aclose(self) -> None: ...


class RedisStore:
    """Redis for one event loop."""

    trouble: tuple[type[BaseException], ...] = (redis.RedisError, OSError, EOFError, TimeoutError)

    def __init__(self, url: str, on_trouble: Callable[[str], None]) -> None:
        self._client = async_client(url)
        self.pipe = Pipe(self._run, self.trouble, on_trouble)

    async def _run(self, commands: list[Command]) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        # Many holds begin together, or are released: one reply costs less than one for each.
        if all(name == "GET" for name, *_ in commands):
            keys = [key for _, key in commands]
            for start in range(0, len(keys), KEYS_IN_A_REPLY):
                pipeline.execute_command("MGET", *keys[start : start + KEYS_IN_A_REPLY])
            return list(itertools.chain.from_iterable(await pipeline.execute()))
        for command in commands:
            pipeline.execute_command(*command)
        return await pipeline.execute()

    async def wake_ups(self, idle: float) -> AsyncGenerator[str | None]:
        async with self._client.pubsub() as channel:
            await channel.subscribe(RELEASED_CHANNEL)
            answered_ping = True
            while True:
                message = await channel.get_message(timeout=idle)
                if message is not None:
                    answered_ping = True
                    if message["type"] == "subscribe":
                        yield None
                    elif message["type"] == "message":
                        yield message["data"].decode(errors="replace")
                elif answered_ping:
                    await channel.ping()
                    answered_ping = False
                else:  # a half-open connection would stay silent forever
                    raise TimeoutError("no answer to a ping")

    async def aclose(self) -> None:
        await self._client.aclose()
