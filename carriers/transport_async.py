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
        await answer.complete
    finally:
        answer.complete.cancel()
        transport.abort()
    body = bytes(answer.body)
    return CarrierResponse(answer.status, answer.headers, body, time.monotonic() - started)


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
    """An answer that comes in; `complete` is done when it is there, or raises why it never will."""

    def __init__(self, complete: asyncio.Future[None]) -> None:
        self.complete = complete
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.on_body = self.body.extend
        self._size = 0
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            return
        self._size += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._end(CarrierAnswerUnreadable(f"broken HTTP: {type(error).__name__}"))
        most = LARGEST_HEAD + (LARGEST_BODY if self.status else 0)
        if len(self.body) > LARGEST_BODY or self._size > most:
            self._end(CarrierAnswerUnreadable("the answer is too large"))

    def connection_lost(self, error: Exception | None) -> None:
        if not self.status:
            self._end(CarrierReset())
        elif error or not self.headers.keys().isdisjoint(("content-length", "transfer-encoding")):
            self._end(CarrierAnswerUnreadable("the answer is cut short"))
        else:  # a body without a length ends with its connection
            self._end(None)

    def _end(self, error: CarrierError | None) -> None:
        self._parser = None  # it knows us, and we it: nothing else would part them soon
        if self.complete.done():
            return
        if error is None:
            self.complete.set_result(None)
        else:
            self.complete.set_exception(error)

    # httptools' callbacks

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._parser is not None:
            self.status = self._parser.get_status_code()

    def on_message_complete(self) -> None:
        if self.status >= 200:
            self._end(None)
        else:  # 100 or 103: the answer itself follows
            self.status = 0
