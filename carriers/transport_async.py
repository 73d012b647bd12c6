"""Exchanges with carriers in an event loop: a connection, httptools' parser and a future for each.

The same rules as in `carriers.transport`: one total deadline, a fresh connection per request, no
redirects, retries, cookies, proxies. A full HTTP client keeps twice as much for each call that
waits (docs/adr/0023-a-small-client-for-carriers.md). Cancelling the task cancels the
exchange and says nothing about the purchase: a caller that may be cancelled must shield it.
"""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httptools

from carriers.base import Steps
from carriers.call import LARGEST_BODY, LEAST_SHARE, USER_AGENT, Call
from carriers.errors import (
    CarrierAnswerUnreadable,
    CarrierError,
    CarrierReset,
    CarrierTimeout,
    CarrierTlsError,
    RequestUnbuildable,
    not_connected,
)
from carriers.messages import CarrierRequest, CarrierResponse
from carriers.outcomes import NotSent, Unknown
from carriers.transport import default_tls

T = TypeVar("T")
# Bytes of an answer's head.
LARGEST_HEAD = 65_536
# What `requests` takes, too. Dangerous where an answer's end decides what the next one is: here
# none follows, and an answer that is refused is a label to be looked for.
LENIENT = (
    *("lenient_headers", "lenient_version", "lenient_keep_alive", "lenient_chunked_length"),
    *("lenient_optional_lf_after_cr", "lenient_optional_cr_before_lf"),
    "lenient_spaces_after_chunk_size",
)


async def perform(
    steps: Steps[T],
    base_url: str,
    deadline: float,
    connect_timeout: float,
    acts_until: float = math.inf,
    *,
    tls: ssl.SSLContext | None = None,
) -> T | NotSent | Unknown:
    """Drive an adapter's steps as `carriers.transport.perform` does."""
    ends_at = time.monotonic() + deadline
    call = Call(base_url.rstrip("/"), ends_at, connect_timeout, acts_until)
    url = urlsplit(call.base_url)
    try:
        context = (tls or default_tls()) if url.scheme == "https" else None
        async with asyncio.timeout(deadline):
            call.begin(next(steps))
            while True:
                transport, answer = await _connect(call, url.hostname or "", url.port, context)
                try:
                    message = _encode(call.request, url.netloc, url.path)
                    if transport.is_closing():
                        raise CarrierReset
                    call.leaving()  # right before the first byte
                    transport.write(message)
                    # Else both would be kept for as long as the carrier takes.
                    del message
                    call.request = None
                    response = CarrierResponse(*await answer.whole)
                finally:
                    answer.whole.cancel()
                    transport.abort()
                call.begin(steps.send(response))
    except StopIteration as end:
        return end.value
    except TimeoutError:
        return call.outcome(CarrierTimeout())
    except CarrierError as error:
        return call.outcome(error)
    finally:
        steps.close()


async def _connect(
    call: Call, host: str, port: int | None, tls: ssl.SSLContext | None
) -> tuple[asyncio.Transport, _Answer]:
    """Connect to the first address that answers; each has a share of the time that is left."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + min(call.ends_at - time.monotonic(), call.connect_timeout)
    trouble: CarrierError | None = None
    try:
        async with asyncio.timeout_at(give_up_at):
            name = host, port or (443 if tls else 80)
            addresses = await loop.getaddrinfo(*name, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise not_connected(f"the name doesn't resolve: {error}") from error
    for tried, (*_, address) in enumerate(addresses):
        left = give_up_at - loop.time()
        share = max(left / (len(addresses) - tried), LEAST_SHARE)
        try:
            async with asyncio.timeout(min(left, share)):
                return await loop.create_connection(
                    lambda: _Answer(loop.create_future()),
                    *address[:2],
                    ssl=tls,
                    server_hostname=host if tls else None,
                )
        except ssl.SSLError as error:
            trouble = CarrierTlsError(f"TLS: {error}")
        except OSError as error:  # refused, or too slow
            trouble = not_connected(f"{type(error).__name__}: {error}")
    raise trouble or not_connected("the name has no address")


def _encode(request: CarrierRequest | None, host: str, prefix: str) -> bytes:
    """Return the request as it is sent, whole: a process may be frozen between two writes."""
    assert request is not None  # noqa: S101 # `begin` comes first
    target = prefix + request.path
    if " " in target or not (target.isascii() and target.isprintable()):
        raise RequestUnbuildable("the address can't be sent")
    headers = {
        "Host": host,
        "User-Agent": USER_AGENT,
        "Accept-Encoding": "identity",
        "Connection": "close",
        **request.headers,
    }
    if request.body or request.method != "GET":
        headers["Content-Length"] = str(len(request.body))
    lines = [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join([f"{request.method} {target} HTTP/1.1", *lines, "", ""])
    return head.encode("ascii") + request.body


@dataclass(eq=False, slots=True)
class _Answer(asyncio.Protocol):
    """An answer that comes in; `whole` is its status, headers and body, or why it never will be."""

    whole: asyncio.Future[tuple[int, dict[str, str], bytes]]
    on_body: Callable[[bytes], None] | None = None
    _parser: Any = None
    _status: int = 0
    _size: int = 0
    _headers: dict[str, str] = field(default_factory=dict)
    _body: bytearray = field(default_factory=bytearray)

    def data_received(self, data: bytes) -> None:
        if self.whole.done():
            return
        if self._parser is None:  # a kilobyte, which no call has while it waits
            self.on_body = self._body.extend
            # A reference cycle: `connection_lost` ends it.
            self._parser = httptools.HttpResponseParser(self)
            self._parser.set_dangerous_leniencies(**dict.fromkeys(LENIENT, True))
        self._size += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(CarrierAnswerUnreadable(f"broken HTTP: {type(error).__name__}"))
        most = LARGEST_HEAD + (LARGEST_BODY if self._status else 0)
        if len(self._body) > LARGEST_BODY or self._size > most:
            self._fail(CarrierAnswerUnreadable("the answer is too large"))

    def connection_lost(self, error: Exception | None) -> None:
        self._parser = None
        if self.whole.done():
            return
        if self._status and (
            error
            or "content-length" in self._headers
            or "chunked" in self._headers.get("transfer-encoding", "").lower()
        ):
            self._fail(CarrierAnswerUnreadable("the answer is cut short"))
        elif self._status:  # a body without a length ends with its connection
            self.on_message_complete()
        self._fail(CarrierReset())  # unless one of these has settled it

    def _fail(self, error: CarrierError) -> None:
        if not self.whole.done():
            self.whole.set_exception(error)

    # httptools' callbacks

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._status:  # else it comes after the body, and counts for nothing
            self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()

    def on_message_complete(self) -> None:
        if self._status >= 200 and not self.whole.done():
            self.whole.set_result((self._status, self._headers, bytes(self._body)))
        # After 100 or 103 the answer itself follows; what follows that is none.
        self._status, self._headers = 0, {}
