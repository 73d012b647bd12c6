"""Exchanges with carriers in an event loop: a connection, httptools' parser and a future for each.

The same rules as in `carriers.transport`: one total deadline, a fresh connection per request, no
redirects, retries, cookies, proxies. A full HTTP client keeps twice as much for each call that
waits (docs/adr/0023-a-small-client-for-carriers.md). Cancelling the task cancels the talk and
says nothing about the purchase: whoever may be cancelled (a client hanging up) must shield it.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

import httptools

from carriers.base import CarrierRequest, CarrierResponse, Steps
from carriers.call import LARGEST_BODY, USER_AGENT, Call, always
from carriers.errors import (
    CarrierAnswerUnreadable,
    CarrierError,
    CarrierReset,
    CarrierTimeout,
    CarrierTlsError,
    CarrierUnreachable,
    RequestUnbuildable,
)
from carriers.outcomes import NotSent, Unknown
from carriers.transport import default_tls

T = TypeVar("T")
# Bytes of an answer's head: http.client and nginx take less.
LARGEST_HEAD = 65_536


async def perform(
    steps: Steps[T],
    base_url: str,
    deadline: float,
    connect_timeout: float,
    *,
    may_buy: Callable[[], bool] = always,
    tls: ssl.SSLContext | None = None,
) -> T | NotSent | Unknown:
    """Drive an adapter's steps as `carriers.transport.perform` does; `may_buy` must not block."""
    call = Call(base_url, deadline, connect_timeout, may_buy)
    try:
        request = next(steps)
        while True:
            async with asyncio.timeout(call.remaining()):
                response = await _fetch(call, request, tls)
            request = steps.send(response)
    except StopIteration as end:
        return end.value
    except TimeoutError:
        return call.outcome(CarrierTimeout())
    except CarrierError as error:
        return call.outcome(error)
    finally:
        steps.close()


async def _fetch(
    call: Call, request: CarrierRequest, tls: ssl.SSLContext | None
) -> CarrierResponse:
    started = time.monotonic()
    call.begin(request)
    url = urlsplit(call.base_url)
    loop = asyncio.get_running_loop()
    context = (tls or default_tls()) if url.scheme == "https" else None
    port = url.port or (443 if context else 80)
    try:
        async with asyncio.timeout(call.remaining(call.connect_timeout)):
            transport, answer = await loop.create_connection(
                lambda: _Answer(loop.create_future()), url.hostname or "", port, ssl=context
            )
    except ssl.SSLError as error:
        raise CarrierTlsError(f"TLS: {error}") from error
    except (OSError, UnicodeError) as error:  # refused, no such name, too slow
        raise CarrierUnreachable(f"{type(error).__name__}: {error}") from error
    try:
        message = _written(request, url.netloc, url.path)
        call.leaving()  # right before the first byte
        transport.write(message)
        del message  # else it would be kept for as long as the carrier takes
        return CarrierResponse(*await answer.whole, time.monotonic() - started)
    finally:
        answer.whole.cancel()
        transport.abort()


def _written(request: CarrierRequest, host: str, prefix: str) -> bytes:
    """Return the request as it is sent, whole: a process may be frozen between two writes."""
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


class _Answer(asyncio.Protocol):
    """An answer that comes in; `whole` is its status, headers and body, or why it never will be."""

    def __init__(self, whole: asyncio.Future[tuple[int, dict[str, str], bytes]]) -> None:
        self.whole = whole
        self._status = self._size = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self.on_body = self._body.extend
        # The parser knows us, and we it: `connection_lost` parts them.
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)

    def data_received(self, data: bytes) -> None:
        if self._parser is None or self.whole.done():
            return
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
        if not self._status:
            self._fail(CarrierReset())
        elif error or not self._headers.keys().isdisjoint(("content-length", "transfer-encoding")):
            self._fail(CarrierAnswerUnreadable("the answer is cut short"))
        else:  # a body without a length ends with its connection
            self.on_message_complete()

    def _fail(self, error: CarrierError) -> None:
        if not self.whole.done():
            self.whole.set_exception(error)

    # httptools' callbacks

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._parser is not None:
            self._status = self._parser.get_status_code()

    def on_message_complete(self) -> None:
        if self._status >= 200 and not self.whole.done():
            self.whole.set_result((self._status, self._headers, bytes(self._body)))
        # After 100 or 103 the answer itself follows; what follows that is none.
        self._status, self._headers = 0, {}
