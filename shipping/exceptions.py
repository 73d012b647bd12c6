"""One exception handler, one error shape."""

from collections.abc import Iterator
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.db import DataError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse, UnreadablePostError
from django.shortcuts import render
from django.template.loader import render_to_string
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import exception_handler, set_rollback

# People use these paths with a browser; all others are read by programs.
FOR_PEOPLE = ("/operator/", "/admin/")


def error_body(code: int, path: str, message: str) -> dict[str, dict[str, object]]:
    """Return the dialect's error body; `request` has no leading slash."""
    return {"error": {"code": code, "request": path.lstrip("/"), "message": message}}


def answer_error(exc: Exception, context: dict[str, Any]) -> Response | None:
    """Turn an exception from a view into the dialect's error shape.

    Bad input that only the database can tell is a 400; a database that is away is a 503.
    Anything else is a bug: it stays an exception, and the server logs it.
    """
    if isinstance(exc, RequestDataTooBig):
        exc = TooLarge()
    elif isinstance(exc, UnreadablePostError):  # the client is gone: for the log and the counters
        exc = exceptions.ParseError("The body was cut off.")
    elif isinstance(exc, DataError):
        exc = exceptions.ValidationError("a value is out of range")
    elif isinstance(exc, OperationalError):
        set_rollback()
        exc = Unavailable()
    response = exception_handler(exc, context)
    if response is not None and isinstance(exc, exceptions.APIException):
        path = context["request"].path
        response.data = error_body(
            response.status_code, path, ", ".join(messages(exc.detail)) or str(exc.default_detail)
        )
    elif response is not None:
        response.data = error_body(
            response.status_code, context["request"].path, str(response.data.get("detail", ""))
        )
    return response


class TooLarge(exceptions.APIException):
    status_code = 413
    default_detail = "The body is too large."


class Unavailable(exceptions.APIException):
    status_code = 503
    # Not that nothing was stored: the connection may have broken after the commit.
    default_detail = (
        "The database is not available. Repeat the request with the same Idempotency-Key or "
        "external_reference."
    )


def messages(detail: Any, field: str = "") -> Iterator[str]:
    """Yield `field: 'text'` for each error, `field` being its dotted path; bare text without."""
    if isinstance(detail, dict):
        for name, inner in detail.items():
            yield from messages(inner, f"{field}.{name}" if field else str(name))
    elif isinstance(detail, list):
        for inner in detail:
            yield from messages(inner, field)
    else:
        yield f"{field}: '{detail}'" if field else str(detail)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a 404: as a page on paths for people, else in the error shape."""
    if request.path.startswith(FOR_PEOPLE):
        # Django's own exception for an address without a view has a list of patterns in its place.
        reason = next((words for words in exception.args if isinstance(words, str)), "")
        return render(request, "parcels/operator/not_found.html", {"reason": reason}, status=404)
    return JsonResponse(error_body(404, request.path, "Not found."), status=404)


def bad_request(request: HttpRequest, exception: Exception) -> JsonResponse:
    """Answer what Django refuses by itself (an unknown host), in the error shape."""
    return JsonResponse(error_body(400, request.path, "Bad request."), status=400)


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer a bug without details: as a page on paths for people, else in the error shape."""
    if request.path.startswith(FOR_PEOPLE):
        # Not for the request: its user and messages would ask the database, which may be away.
        return HttpResponse(render_to_string("parcels/operator/failed.html"), status=500)
    return JsonResponse(error_body(500, request.path, "Internal server error."), status=500)
