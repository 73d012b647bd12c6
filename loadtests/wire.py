"""A keep-alive HTTP/1.1 connection that says when its bytes came.

Ten times as cheap as a full client: on a machine that also runs the server, whatever the
generator costs is taken from what it measures. Parsing is httptools' (llhttp).
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Self, cast

import httptools

# An idle connection older than this is not used again: servers close theirs after 60 to 75 s, and
# a request that meets the close would look like a reset.
IDLE_SECONDS = 30.0


@dataclass(slots=True)
class Answer:
    """What came back; `first_byte` on the monotonic clock."""

    status: int
    body: bytes
    first_byte: float


class ClosedEarlyError(ConnectionError):
    """The server closed the connection in the middle of an answer, or before it."""


class Wire(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Answer] | None = None
        self._answer = Answer(0, b"", 0.0)
        self._sized = False
        self._keep = False
        self._idle_since = 0.0

    @classmethod
    async def connect(cls, host: str, port: int) -> Self:
        """Open a connection; OSError where nobody listens."""
        _, wire = await asyncio.get_running_loop().create_connection(cls, host, port)
        return wire

    @property
    def usable(self) -> bool:
        """Say whether another request may be sent on it."""
        open_ = self._transport is not None and not self._transport.is_closing()
        return open_ and self._keep and time.monotonic() - self._idle_since < IDLE_SECONDS

    async def ask(self, request: bytes) -> Answer:
        """Send and return the answer; ConnectionError where none comes."""
        if self._transport is None or self._transport.is_closing():
            raise ClosedEarlyError("closed before the request")
        self._answer = Answer(0, b"", 0.0)
        self._sized = False
        self._parser = httptools.HttpResponseParser(self)
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._waiter

    def close(self) -> None:
        """Hang up at once."""
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by class

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:
            return self.close()  # nobody asked: its rest would be the next answer
        if not self._answer.first_byte:
            self._answer.first_byte = time.monotonic()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(ClosedEarlyError(f"not HTTP: {error}"))
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._keep = False
        if self._answer.status and not self._sized:
            self._done()  # a body without a length ends with its connection
        else:
            self._fail(error or ClosedEarlyError("closed before the answer's end"))

    # httptools' callbacks

    def on_header(self, name: bytes, value: bytes) -> None:
        self._sized = self._sized or name.lower() in {b"content-length", b"transfer-encoding"}

    def on_headers_complete(self) -> None:
        self._answer.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self._answer.body += body

    def on_message_complete(self) -> None:
        self._keep = self._parser.should_keep_alive()
        self._done()

    def _done(self) -> None:
        self._idle_since = time.monotonic()
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(self._answer)

    def _fail(self, error: Exception) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
