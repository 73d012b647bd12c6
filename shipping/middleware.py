"""Our middleware: ids and log lines, headers for browsers, limits, static files.

All of it serves under WSGI and ASGI without an extra thread.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from whitenoise.middleware import WhiteNoiseMiddleware

from parcels import limits, metrics
from parcels.models import Account
from shipping.exceptions import error_body

log = logging.getLogger("shipping.requests")

HEADER = "X-Request-ID"
# Long enough for a UUID or a trace id with prefix; no characters that could break a log line.
_VALID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
# Others are any word that a client makes up: each would be a series of its own.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# JSON and documents: if a browser shows them, they may not run or load anything.
API_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
# Pages of ours bring no inline script and load nothing from elsewhere.
PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
PERMISSIONS = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"


class SyncAsyncMiddleware:
    """Calls `answer` or `answer_async`, as the next one is sync or async."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        return self.answer_async(request) if self._is_async else self.answer(request)

    def answer(self, request: HttpRequest) -> HttpResponseBase:
        """Answer where the next one is sync."""
        raise NotImplementedError

    async def answer_async(self, request: HttpRequest) -> HttpResponseBase:
        """Answer where the next one is a coroutine."""
        raise NotImplementedError


def request_id(given: str | None) -> str:
    """Return the client's request id if it is one, else a new one."""
    return given if given and _VALID.fullmatch(given) else uuid.uuid4().hex


class RequestMiddleware(SyncAsyncMiddleware):
    """Directly inside OffloadMiddleware: every answer of the application passes it."""

    def answer(self, request: HttpRequest) -> HttpResponseBase:
        """Answer in a worker."""
        with _Watched(request) as watched:
            return watched.done(self.get_response(request))

    async def answer_async(self, request: HttpRequest) -> HttpResponseBase:
        """Answer in a loop."""
        with _Watched(request) as watched:
            return watched.done(await self.get_response(request))

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> None:
        """Bind whose parcel it is about; Django calls this when the route is known."""
        if "parcel_id" in kwargs:
            structlog.contextvars.bind_contextvars(parcel=kwargs["parcel_id"])


class _Watched:
    """One request from its arrival to its answer."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self._id = request_id(request.headers.get(HEADER))
        self._started = time.perf_counter()
        self._serving = metrics.WORKERS.labels("serving")

    def __enter__(self) -> _Watched:
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request=self._id)
        self._serving.inc()
        return self

    def __exit__(self, *_: object) -> None:
        self._serving.dec()

    def done(self, response: HttpResponseBase) -> HttpResponseBase:
        """Count and log the answer, and put the id on it."""
        seconds = time.perf_counter() - self._started
        method = self._request.method if self._request.method in _METHODS else "other"
        match = self._request.resolver_match
        route = (match.view_name if match else "") or "unmatched"
        metrics.REQUESTS.labels(method, route, response.status_code).inc()
        metrics.REQUEST_SECONDS.labels(method, route).observe(seconds)
        user = getattr(self._request, "user", None)
        log.info(
            "answered",
            extra={
                "method": method,
                "route": route,
                "status": response.status_code,
                "seconds": round(seconds, 4),
                "account": user.pk if isinstance(user, Account) else None,
            },
        )
        response[HEADER] = self._id
        return response


class SecurityHeadersMiddleware(SyncAsyncMiddleware):
    """Adds what a view has not set itself."""

    def answer(self, request: HttpRequest) -> HttpResponseBase:
        """Answer in a worker."""
        return with_headers(request, self.get_response(request))

    async def answer_async(self, request: HttpRequest) -> HttpResponseBase:
        """Answer in a loop."""
        return with_headers(request, await self.get_response(request))


def with_headers(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Set the headers that are not there yet."""
    api = request.path.lstrip("/").startswith("api/")  # as the routes have it
    headers = {
        "Content-Security-Policy": API_POLICY if api else PAGE_POLICY,
        "Permissions-Policy": PERMISSIONS,
    }
    if api:
        headers["Cache-Control"] = "no-store"  # names and addresses must not be cached
    for name, value in headers.items():
        response.headers.setdefault(name, value)
    return response


class RequestLimitsMiddleware(SyncAsyncMiddleware):
    """Answers before any view, session or database is asked, and before the body is read."""

    def answer(self, request: HttpRequest) -> HttpResponseBase:
        """Answer in a worker."""
        return refusal(request) or self.get_response(request)

    async def answer_async(self, request: HttpRequest) -> HttpResponseBase:
        """Answer in a loop."""
        return refusal(request) or await self.get_response(request)


def refusal(request: HttpRequest) -> JsonResponse | None:
    """Return the error to answer with, None where there is none."""
    found = exceeded(request)
    if found is None:
        return None
    status, message = found
    path = request.path if len(request.path) <= limits.PATH else ""
    return JsonResponse(error_body(status, path, message), status=status)


def exceeded(request: HttpRequest) -> tuple[int, str] | None:
    """Return status and message of the first limit that the request is over."""
    length = request.META.get("CONTENT_LENGTH") or "0"
    most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    if not length.isdecimal() or len(length) > limits.ID_DIGITS:
        return 400, "Content-Length is not a number of bytes."
    if int(length) > most:
        return 413, f"The body is over {most} bytes."
    if len(request.path) > limits.PATH or "\0" in request.path:  # PostgreSQL refuses NUL
        return 404, "Not found."
    query = request.META.get("QUERY_STRING", "")
    if len(query) > limits.QUERY:
        return 400, f"The query is over {limits.QUERY} characters."
    if query.count("&") >= limits.PARAMETERS:
        return 400, f"The query has over {limits.PARAMETERS} parameters."
    return None


class StaticFilesMiddleware(WhiteNoiseMiddleware):
    """Serve static files; else pass on.

    WhiteNoise itself is synchronous: before an async view it would keep a thread waiting for as
    long as the view waits, which is what async views are there to avoid.
    """

    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        super().__init__(get_response)
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        return self._answer(request) if self._is_async else super().__call__(request)

    async def _answer(self, request: HttpRequest) -> Any:
        find = self.find_file if self.autorefresh else self.files.get
        static_file = await sync_to_async(find)(request.path_info)
        if static_file is None:
            return await self.get_response(request)
        return await sync_to_async(self.serve)(static_file, request)
