"""Exchanges with carriers by `requests`: for threads and, monkey-patched, for gevent.

- One connection per request, never one that was used before. A carrier closes an idle connection
  at the very moment when we reuse it, and an outcome is unknown for nothing. A handshake is cheap
  beside what these carriers take.
- No redirects (a redirected POST is a second purchase), no retries, no cookies, and no proxies or
  .netrc from the environment.
- The total deadline is kept by `carriers.watchdog`. What it can't cut is `getaddrinfo`: nothing has
  been sent then, and nothing is sent after a late answer. Keep the resolver's own time-outs short
  (`options timeout:1 attempts:2` in resolv.conf).
"""

from __future__ import annotations

import functools
import http.client
import math
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any, TypeVar

import certifi
import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util import parse_url

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
from carriers.watchdog import WATCHDOG, Watch

T = TypeVar("T")
# Why 64 KB: a label arrives in one or two reads, and a flood is noticed before it fills memory.
CHUNK = 65_536
# Interim answers (1xx) before an answer: one in each second of the longest call is a third of it.
INTERIM = 100
TROUBLE = (
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    http.client.HTTPException,
    OSError,
    ValueError,
)


def perform(
    steps: Steps[T],
    base_url: str,
    deadline: float,
    connect_timeout: float,
    acts_until: float = math.inf,
    *,
    tls: ssl.SSLContext | None = None,
) -> T | NotSent | Unknown:
    """Run an adapter's steps and return their outcome; a carrier's error is an outcome, too.

    `deadline` is seconds for all steps together, `connect_timeout` seconds per connection, its TLS
    handshake included. A first byte that acts and would leave after `acts_until`, by this process'
    monotonic clock, is NotSent("send_forbidden"). `tls` replaces the default trust (certifi).
    """
    ends_at = time.monotonic() + deadline
    call = Call(base_url.rstrip("/"), ends_at, connect_timeout, acts_until)
    try:
        request = next(steps)
        while True:
            request = steps.send(_fetch(call, request, tls))
    except StopIteration as end:
        return end.value
    except CarrierError as error:
        return call.outcome(error)
    finally:
        steps.close()


def _fetch(call: Call, request: CarrierRequest, tls: ssl.SSLContext | None) -> CarrierResponse:
    call.begin(request)
    wire = _Wire(call, tls)
    try:
        with _send(call, request, wire) as response:
            body = b"".join(_bounded(response))
    except CarrierError:
        raise
    except TROUBLE as error:
        raise _as_carrier_error(error, wire) from error
    finally:
        wire.let_go()
    if wire.was_cut():  # a cut looks like the end of a body that has no length
        raise CarrierTimeout
    headers = {name.lower(): value for name, value in response.headers.items()}
    return CarrierResponse(response.status_code, headers, body)


def _send(call: Call, request: CarrierRequest, wire: _Wire) -> requests.Response:
    headers = {"User-Agent": USER_AGENT, "Connection": "close", **request.headers}
    try:
        prepared = requests.Request(
            request.method, call.base_url + request.path, headers=headers, data=request.body
        ).prepare()
    except ValueError as error:
        # Not its text, which repeats what may be a secret, and is shown to clients.
        raise RequestUnbuildable(type(error).__name__) from error
    time_outs = (call.remaining(call.connect_timeout), call.remaining())
    # Not by a session: it reads a redirect's body, unpacked and without a limit.
    return wire.send(prepared, timeout=time_outs, stream=True)


def _bounded(response: requests.Response) -> Iterator[bytes]:
    size = 0
    for chunk in response.raw.stream(CHUNK, decode_content=False):
        size += len(chunk)
        if size > LARGEST_BODY:
            raise CarrierAnswerUnreadable("the answer is too large")
        yield chunk


def _as_carrier_error(error: Exception, wire: _Wire) -> CarrierError:
    causes = list(_causes(error))
    if wire.was_cut() or any(isinstance(cause, TIME_OUTS) for cause in causes):
        return CarrierTimeout()
    if any(isinstance(cause, ConnectionError) for cause in causes):
        return CarrierReset()
    if any(isinstance(cause, BROKEN_ANSWERS) for cause in causes):
        return CarrierAnswerUnreadable(f"broken HTTP: {type(causes[-1]).__name__}")
    return CarrierReset(type(causes[-1]).__name__)


TIME_OUTS = (TimeoutError, requests.Timeout, urllib3.exceptions.TimeoutError)
BROKEN_ANSWERS = (
    http.client.HTTPException,
    urllib3.exceptions.IncompleteRead,
    urllib3.exceptions.InvalidChunkLength,
    urllib3.exceptions.InvalidHeader,
    urllib3.exceptions.DecodeError,
)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@functools.cache
def default_tls() -> ssl.SSLContext:
    """Return the trust in the public authorities; once, as reading certifi's file takes 10 ms."""
    try:
        return ssl.create_default_context(cafile=certifi.where())
    except OSError as error:
        raise not_connected(f"TLS: {error}") from error


class _Wire(HTTPAdapter):
    """The adapter of one request: `requests` by the outside, our own connection inside."""

    def __init__(self, call: Call, tls: ssl.SSLContext | None) -> None:
        self.call = call
        self.tls = tls
        self.watch: Watch | None = None
        self.pool: HTTPConnectionPool | None = None
        super().__init__(max_retries=0)

    def get_connection_with_tls_context(self, request: Any, *_: Any, **__: Any) -> Any:
        url = parse_url(request.url)
        if url.scheme == "https":
            context = self.tls or default_tls()
            self.pool = _TlsPool(url.host or "", url.port, wire=self, ssl_context=context)
        else:
            self.pool = _Pool(url.host or "", url.port, wire=self)
        return self.pool

    def cert_verify(self, *_: Any, **__: Any) -> None:
        """Leave the pool's trust as it is: requests would load certifi's file for each call."""

    def was_cut(self) -> bool:
        """Tell whether the total deadline struck."""
        return self.watch is not None and self.watch.cut

    def let_go(self) -> None:
        """End the watch and drop the connection."""
        if self.pool is not None:
            self.pool.close()
        if self.watch is not None:
            self.watch.let_go()


class FinalAnswer(http.client.HTTPResponse):
    """An answer after all interim ones; `http.client` itself passes over 100 only, without end."""

    _left = INTERIM + 1

    def _read_status(self) -> Any:
        self._left -= 1
        if self._left < 0:
            raise http.client.HTTPException("too many interim answers")
        return super()._read_status()  # type: ignore[misc] # not in the stubs

    def begin(self) -> None:
        super().begin()
        while self.status < 200 and self.status != 101:
            self.headers = None  # type: ignore[assignment] # else it has begun already
            super().begin()


class _Connection(HTTPConnection):
    """A connection that dials within its call's time, and sends a request whole or not at all.

    `http.client` writes headers and body one after the other, and gives other threads their turn
    between the two. A process that was frozen there would complete its purchase when it resumes,
    long after its last look at the clock: the fault suite's F3 bought a label twice that way.
    """

    response_class = FinalAnswer

    def __init__(self, *args: Any, wire: _Wire, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._wire = wire
        self._gathered = bytearray()

    def request(self, *args: Any, **kwargs: Any) -> None:
        self._gathered.clear()
        super().request(*args, **kwargs)
        if self.sock is None:
            self.connect()
        self.sock.settimeout(self.timeout)  # connecting has left less
        message = bytes(self._gathered)
        self._wire.call.leaving()
        self.sock.sendall(message)  # right after the check of the clock

    def _new_conn(self) -> socket.socket:
        connection = _dial(self.host.strip("[]"), self.port, self._wire.call)
        try:
            self._wire.watch = WATCHDOG.watch(connection, self._wire.call.ends_at)
        except BaseException:
            connection.close()
            raise
        return connection

    def send(self, data: Any) -> None:
        self._gathered += data


class _TlsConnection(_Connection, HTTPSConnection):
    """The same over TLS. Nothing of HTTP has left us before the handshake is over."""

    def connect(self) -> None:
        try:
            super().connect()
        except (OSError, ValueError, urllib3.exceptions.HTTPError) as error:
            raise CarrierTlsError(f"TLS: {error}") from error


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


def _dial(host: str, port: int, call: Call) -> socket.socket:
    """Connect to the first address that answers; each has a share of the time that is left.

    urllib3 gives each the full time-out.
    """
    give_up_at = time.monotonic() + call.remaining(call.connect_timeout)
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise not_connected(f"the name doesn't resolve: {error}") from error
    trouble = "connect time-out"
    for tried, (family, kind, protocol, _, address) in enumerate(addresses):
        left = give_up_at - time.monotonic()
        if left <= 0:
            break
        share = min(left, max(left / (len(addresses) - tried), LEAST_SHARE))
        try:
            return _connect(socket.socket(family, kind, protocol), address, share, give_up_at)
        except OSError as error:
            trouble = str(error) or trouble
    raise not_connected(trouble)


def _connect(
    connection: socket.socket, address: Any, seconds: float, until: float
) -> socket.socket:
    try:
        connection.settimeout(seconds)
        connection.connect(address)
        # For the TLS handshake: after it no other address is tried.
        connection.settimeout(max(until - time.monotonic(), 0.001))
    except BaseException:
        connection.close()
        raise
    return connection
