"""Connections that listen, and are not Django's.

A process that holds clients has one, and one that asks; a worker that waits has its own.
"""

import asyncio
import logging
import socket
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager, suppress
from threading import Timer
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from offload.keys import ANSWER_KEY, HOLD_CHANNEL, RELEASED_CHANNEL
from offload.postgresql import ADD, BACKEND, DAY, READ
from offload.protocol import Answer, decode_answer
from offload.redis_clients import SOCKET_TIMEOUT, Command, Pipe

logger = logging.getLogger("offload")

# Seconds until a connection stands: another machine, TLS and a login. libpq knows whole ones.
CONNECT_TIMEOUT = 2
# Raised where a worker waits: the store is in trouble, or its answer can't be read.
TROUBLE = (psycopg.Error, OSError, ValueError)


@contextmanager
def cut_when_silent(
    connection: psycopg.BaseConnection[Any], call_later: Callable[..., Any]
) -> Iterator[None]:
    """Shut the connection down if what is asked inside takes longer than SOCKET_TIMEOUT.

    psycopg would wait ten seconds more for the end of a query that is cancelled.
    """
    # A descriptor of its own: libpq may close its one meanwhile, and another file get the number.
    with socket.fromfd(connection.fileno(), socket.AF_UNSPEC, socket.SOCK_STREAM) as own:

        def cut() -> None:
            with suppress(OSError):  # the server has closed it
                own.shutdown(socket.SHUT_RDWR)

        timer = call_later(SOCKET_TIMEOUT, cut)
        try:
            yield
        finally:
            timer.cancel()


def _cut(connection: psycopg.AsyncConnection[Any]) -> AbstractContextManager[None]:
    return cut_when_silent(connection, asyncio.get_running_loop().call_later)


class PostgresStore:
    """PostgreSQL for one event loop; a redis_clients.AsyncStore."""

    trouble: tuple[type[BaseException], ...] = (psycopg.Error, OSError, TimeoutError)

    def __init__(self, url: str, on_trouble: Callable[[str], None]) -> None:
        self._url = url
        self._asking: psycopg.AsyncConnection[Any] | None = None
        self._pooled = False
        self.pipe = Pipe(self._run, self.trouble, on_trouble)

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        # psycopg's time is each address', of which a name may have two; looking names up has none
        # of its own.
        hosts = 1 + str(conninfo_to_dict(self._url).get("host")).count(",")
        async with asyncio.timeout(2 * hosts * CONNECT_TIMEOUT):
            connection = await psycopg.AsyncConnection.connect(
                self._url, autocommit=True, connect_timeout=CONNECT_TIMEOUT
            )
        with _cut(connection):
            row = await (await connection.execute(BACKEND)).fetchone()
        self._pooled = row is None or row[0] != connection.info.backend_pid
        if self._pooled:
            connection.prepare_threshold = None
        return connection

    async def _run(self, commands: list[Command]) -> list[Any]:
        if self._asking is None:
            self._asking = await self._connect()
        try:
            return await self._answer(self._asking, commands)
        except self.trouble:
            await self.aclose()
            raise

    async def _answer(
        self, connection: psycopg.AsyncConnection[Any], commands: list[Command]
    ) -> list[Any]:
        """Do all SETs as one statement and all GETs as another one."""
        new: dict[Any, tuple[bytes, float]] = {}
        for name, *rest in commands:
            if name == "SET":
                key, value, *options = rest
                life = float(options[-1]) if "EX" in options else DAY
                new.setdefault(key, (str(value).encode(), life))
        added: set[Any] = set()
        if new:
            values, lives = zip(*new.values(), strict=True)
            with _cut(connection):
                cursor = await connection.execute(ADD, [[*new], [*values], [*lives]])
            added = {key for (key,) in await cursor.fetchall()}
        keys = [key for name, *rest in commands if name in {"GET", "MGET"} for key in rest]
        found: dict[Any, bytes] = {}
        if keys or not new:  # a PING is a question, too
            rows = connection.cursor().stream(READ, [keys], binary=True)
            while True:
                with _cut(connection):  # each has its second: answers may be large
                    row = await anext(rows, None)
                if row is None:
                    break
                found[row[0]] = row[1]
        replies: list[Any] = []
        for name, *rest in commands:
            if name == "SET":
                replies.append(rest[0] in added)
                added.discard(rest[0])  # of two in one batch the first one was it
            elif name == "MGET":
                replies.append([found.get(key) for key in rest])
            else:
                replies.append(found.get(rest[0]) if rest else True)
        return replies

    async def wake_ups(self, idle: float) -> AsyncGenerator[str | None]:
        connection = await self._connect()
        try:
            if self._pooled:
                logger.warning(
                    "a pooler stands before PostgreSQL: no release is heard, answers are read "
                    "every %g s; give the hub, and the entry of DATABASES that OFFLOAD['DATABASE'] "
                    "names, the server's own address",
                    idle,
                )
            else:
                with _cut(connection):
                    await connection.execute(f'LISTEN "{RELEASED_CHANNEL}"')
            yield None
            while True:
                silent = True
                async with aclosing(connection.notifies(timeout=idle)) as notifications:
                    async for notification in notifications:
                        silent = False
                        yield notification.payload
                if silent:  # a half-open connection would stay so forever
                    with _cut(connection):
                        await connection.execute("SELECT 1")
        finally:
            await connection.close()

    async def aclose(self) -> None:
        connection, self._asking = self._asking, None
        if connection is not None:
            await connection.close()


def wait_on_postgresql(
    url: str, hold_id: str, deadline: float, *, ask_app: Callable[[str], Answer | None], idle: float
) -> Answer | None:
    """Listen, read, wait; `deadline` by the monotonic clock. Behind a pooler nothing is heard."""
    with psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_TIMEOUT) as connection:
        with cut_when_silent(connection, _call_later):
            row = connection.execute(BACKEND).fetchone()
            if row is not None and row[0] == connection.info.backend_pid:
                connection.execute(f'LISTEN "{HOLD_CHANNEL + hold_id}"')
            else:
                connection.prepare_threshold = None
        woken = False
        while True:
            with cut_when_silent(connection, _call_later):
                row = connection.execute(READ, [[ANSWER_KEY + hold_id]], binary=True).fetchone()
            if row is not None:
                return decode_answer(row[1])
            left = deadline - time.monotonic()
            if woken or left <= 0:
                answer = ask_app(hold_id)
                if answer is not None or left <= 0:
                    return answer
            # To its end: left open, the generator would keep the connection's lock.
            woken = bool([*connection.notifies(timeout=min(idle, left), stop_after=1)])


def _call_later(seconds: float, work: Callable[[], None]) -> Timer:
    timer = Timer(seconds, work)
    timer.daemon = True
    timer.start()
    return timer
