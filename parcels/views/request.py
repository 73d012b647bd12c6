"""What views read from a request, beside its body."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from django.conf import settings
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

import offload
from parcels.models import Account
from parcels.services.holds import Asked
from parcels.services.idempotency import Key, read_key

if TYPE_CHECKING:
    from collections.abc import Mapping

ERROR_MODES = ("", "verbose", "verbose-carrier")
_WAIT = re.compile(r"^wait\s*=\s*\"?(\d{1,6})\"?$", re.IGNORECASE)


def account_of(request: Request) -> Account:
    """Return the account of the request."""
    return cast(Account, request.user)


def base_url(request: Request) -> str:
    """Return what absolute URLs begin with: the configured public URL, else the request's host."""
    return settings.PUBLIC_URL or f"{request.scheme}://{request.get_host()}"


def error_mode(parameters: Mapping[str, str]) -> str:
    """Read `errors`; an unknown value is ignored."""
    mode = parameters.get("errors", "")
    return mode if mode in ERROR_MODES else ""


def asked(request: Request, *, many: bool = False, wait: float | None = None) -> Asked:
    """Return how the client asked."""
    return Asked(
        account=account_of(request),
        base=base_url(request),
        path=request.path,
        many=many,
        errors=error_mode(request.query_params),
        wait=wait,
        # Not when the view begins: in a burst, requests queue before it.
        asked_at=offload.arrived_at(request),
    )


def idempotency_key(request: Request) -> Key | None:
    """Return the request's Idempotency-Key; call it before the body is parsed.

    Raises:
        ValidationError: it can't be one.
    """
    text = request.headers.get("Idempotency-Key")
    if text is None:
        return None
    query = request.META.get("QUERY_STRING", "").encode()
    return read_key(
        text, (request.method or "").encode(), request.path.encode(), query, request.body
    )


@dataclass(frozen=True, slots=True)
class Preferences:
    """What the client prefers; `wait` in seconds, None when it didn't say."""

    respond_async: bool = False
    wait: int | None = None


def read_preferences(header: str) -> Preferences:
    """Read a Prefer header (RFC 7240). What isn't understood is ignored, as the RFC asks."""
    respond_async, wait = False, None
    for preference in header.split(","):
        name = preference.split(";")[0].strip()
        if name.lower() == "respond-async":
            respond_async = True
        elif wait is None and (match := _WAIT.match(name)):
            wait = int(match[1])
    return Preferences(respond_async, wait)


def read_wait(value: str | None) -> float | None:
    """Read `?wait=N`: seconds, or None when absent.

    Raises:
        ValidationError: it is not a number of seconds.
    """
    if value is None:
        return None
    if not re.fullmatch(r"\d{1,6}", value, re.ASCII):
        raise ValidationError({"wait": ["A whole number of seconds is needed."]})
    return float(value)
