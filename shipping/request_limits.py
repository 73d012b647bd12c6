"""Refuse a request that is too long for any view, in the API's words."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase

from parcels import limits
from shipping.exceptions import error_body
from shipping.sync_async import SyncAsyncMiddleware


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
