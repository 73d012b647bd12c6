"""Exchanges with carriers by aiohttp, in an event loop.

The same rules as in `carriers.transport`: one total deadline, a fresh connection per request, no
redirects, retries, cookies, proxies. Cancelling the task cancels the talk and says nothing about
the purchase: whoever may be cancelled (a client hanging up) must shield it.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import TypeVar

import aiohttp
from yarl import URL

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
from carriers.transport import CHUNK, default_tls

T = TypeVar("T")


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
    loop = asyncio.get_running_loop()
    session = _enter_session(loop)
    try:
        request = next(steps)
        while True:
            # aiohttp rounds its own time-outs over 5 s up to whole seconds; this one is exact.
            async with asyncio.timeout(call.remaining()):
                response = await _fetch(call, request, session, tls or default_tls())
            request = steps.send(response)
    except StopIteration as end:
        return end.value
    except TimeoutError:
        return call.outcome(CarrierTimeout())
    except CarrierError as error:
        return call.outcome(error)
    finally:
        steps.close()
        session, calls = _sessions.pop(loop)
        if calls > 1:
            _sessions[loop] = session, calls - 1
        else:
            await session.close()


def _enter_session(loop: asyncio.AbstractEventLoop) -> aiohttp.ClientSession:
    """Return the session that this event loop's calls share; the last one out closes it.

    It keeps nothing from call to call. One for each would weigh 9 KB while its carrier is slow.
    """
    session, calls = _sessions.get(loop, (None, 0))
    if session is None:
        # aiohttp calls this when the headers are ready, before the first write: raising stops them.
        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(_leaving)
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # the bulkhead limits calls; a queue here would use up their deadline
                force_close=True,
                use_dns_cache=False,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=[trace],
            auto_decompress=False,
            trust_env=False,
        )
    _sessions[loop] = session, calls + 1
    return session


_sessions: dict[asyncio.AbstractEventLoop, tuple[aiohttp.ClientSession, int]] = {}


async def _leaving(_session: object, context: SimpleNamespace, _sent: object) -> None:
    context.trace_request_ctx.leaving()


async def _fetch(
    call: Call, request: CarrierRequest, session: aiohttp.ClientSession, tls: ssl.SSLContext
) -> CarrierResponse:
    started = time.monotonic()
    call.begin(request)
    body = bytearray()
    try:
        async with session.request(
            request.method,
            URL(call.base_url + request.path, encoded=True),
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity", **request.headers},
            data=request.body or None,
            allow_redirects=False,
            # The deadline is `perform`'s: aiohttp's own would be two more timers for each call.
            timeout=aiohttp.ClientTimeout(
                total=None,
                connect=call.remaining(call.connect_timeout),
                sock_connect=call.remaining(call.connect_timeout),
                sock_read=None,
            ),
            ssl=tls,
            trace_request_ctx=call,
        ) as response:
            async for chunk in response.content.iter_chunked(CHUNK):
                body += chunk
                if len(body) > LARGEST_BODY:
                    raise CarrierAnswerUnreadable("the answer is too large")
    except TROUBLE as error:
        raise _as_carrier_error(error) from error
    headers = {name.lower(): value for name, value in response.headers.items()}
    return CarrierResponse(response.status, headers, bytes(body), time.monotonic() - started)


TROUBLE = (aiohttp.ClientError, OSError, ValueError)


def _as_carrier_error(error: Exception) -> CarrierError:
    for kind, make in ERRORS:
        if isinstance(error, kind):
            return make(f"{type(error).__name__}: {error}")
    return CarrierReset(type(error).__name__)


# In this order: the first that fits. aiohttp's classes inherit from several of each other.
ERRORS: tuple[tuple[type[Exception], Callable[[str], CarrierError]], ...] = (
    (aiohttp.ClientSSLError, CarrierTlsError),
    (aiohttp.ClientConnectorError, CarrierUnreachable),
    (aiohttp.ConnectionTimeoutError, CarrierUnreachable),
    (TimeoutError, CarrierTimeout),
    (aiohttp.ClientPayloadError, CarrierAnswerUnreadable),
    (aiohttp.ClientResponseError, CarrierAnswerUnreadable),
    (aiohttp.InvalidURL, RequestUnbuildable),
)
