"""Every request: its id, its line in the log, its numbers."""

from __future__ import annotations

import logging
import re
import time
import uuid
from typing import Any

import structlog
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from parcels import metrics
from parcels.models import Account
from shipping.sync_async import SyncAsyncMiddleware

log = logging.getLogger("shipping.requests")

HEADER = "X-Request-ID"
# Long enough for a UUID or a trace id with prefix; no characters that could break a log line.
_VALID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
# Others are any word that a client makes up: each would be a series of its own.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


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
