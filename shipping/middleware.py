"""Our middleware: the request's id, its limits, headers for browsers, its log line and numbers.

It serves under WSGI and ASGI without an extra thread.
"""

import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase

from parcels import limits, metrics
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
_SAFE, _ELSEWHERE = {"GET", "HEAD", "OPTIONS"}, {"cross-site", "same-site"}
PERMISSIONS = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"


class RequestMiddleware:
    """Watches each request, refuses what is over a limit, and sets the answer's headers.

    Directly inside OffloadMiddleware: every answer of the application passes it.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self._is_async:
            return self._answer_async(request)
        request_id, started, refused = _begin(request)
        with metrics.WORKERS.labels("serving").track_inprogress():
            response = refused or self.get_response(request)
            return _end(request, response, request_id, started)

    async def _answer_async(self, request: HttpRequest) -> HttpResponseBase:
        request_id, started, refused = _begin(request)
        with metrics.WORKERS.labels("serving").track_inprogress():
            response = refused or await self.get_response(request)
            return _end(request, response, request_id, started)


def _begin(request: HttpRequest) -> tuple[str, float, JsonResponse | None]:
    """Bind the request's id; return it, its begin, and the error response if it exceeds a limit.

    The id is the client's where that is one. The limits come before any view, session or database
    is asked, and before the body is read.
    """
    started = time.perf_counter()
    if not request.META.get("HTTP_ACCEPT", "*").strip(" ,"):
        del request.META["HTTP_ACCEPT"]  # empty it names no format; absent it takes any
    given = request.headers.get(HEADER)
    request_id = given if given and _VALID.fullmatch(given) else uuid.uuid4().hex
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(request=request_id)
    # Backslashes: "\000" would be NUL; many take the square of their number before Python 3.11.10.
    if cookies := request.META.get("HTTP_COOKIE"):
        request.META["HTTP_COOKIE"] = re.sub(r"(^|;)[^;]*[\\\0][^;]*", "", cookies)
    length = request.META.get("CONTENT_LENGTH") or "0"
    query = request.META.get("QUERY_STRING", "")
    most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    if not length.isdecimal() or len(length) > limits.ID_DIGITS:
        status, message = 400, "Content-Length is not a number of bytes."
    elif int(length) > most:
        status, message = 413, f"The body is over {most} bytes."
    elif len(request.path) > limits.PATH or "\0" in request.path:  # PostgreSQL refuses NUL
        status, message = 404, "Not found."
    elif len(query) > limits.QUERY:
        status, message = 400, f"The query is over {limits.QUERY} characters."
    elif query.count("&") >= limits.PARAMETERS:
        status, message = 400, f"The query has over {limits.PARAMETERS} parameters."
    # A browser sends the keys it was given for a label's link with any page's forms, too.
    elif request.META.get("HTTP_SEC_FETCH_SITE") in _ELSEWHERE and request.method not in _SAFE:
        status, message = 403, "A page of another origin may not send this."
    else:
        return request_id, started, None
    path = request.path if len(request.path) <= limits.PATH else ""
    return request_id, started, JsonResponse(error_body(status, path, message), status=status)


def _end(
    request: HttpRequest, response: HttpResponseBase, request_id: str, started: float
) -> HttpResponseBase:
    """Count and log the answer; set its id, and the headers that a view has not set itself."""
    if 300 <= response.status_code < 400 and len(response.get("Location", "")) > limits.REDIRECT:
        words = error_body(414, request.path, "The address is too long to be redirected.")
        response = JsonResponse(words, status=414)
    seconds = time.perf_counter() - started
    method = request.method if request.method in _METHODS else "other"
    match = request.resolver_match
    route = (match.view_name if match else "") or "unmatched"
    # Of a hold this is the late answer, which few clients get.
    status = "held" if hasattr(response, "offload_hold") else response.status_code
    metrics.REQUESTS.labels(method, route, status).inc()
    metrics.REQUEST_SECONDS.labels(method, route).observe(seconds)
    said = {"method": method, "route": route, "status": status}
    if match and "parcel_id" in match.kwargs:
        said["parcel"] = match.kwargs["parcel_id"]
    log.info("answered", extra=said | {"seconds": round(seconds, 4)})
    api = request.path.lstrip("/").startswith("api/")  # as the routes have it
    response.headers.setdefault("Content-Security-Policy", API_POLICY if api else PAGE_POLICY)
    response.headers.setdefault("Permissions-Policy", PERMISSIONS)
    response.headers.setdefault("Cache-Control", "no-store")  # most have names and addresses
    response[HEADER] = request_id
    return response
