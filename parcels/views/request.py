"""What every view reads from a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from django.conf import settings
from rest_framework.request import Request

import offload
from parcels.models import Account
from parcels.services.create import Asked
from parcels.services.idempotency import Key, read_key

if TYPE_CHECKING:
    from collections.abc import Mapping

ERROR_MODES = ("", "verbose", "verbose-carrier")


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
    query = request.META.get("QUERY_STRING", "").encode()
    text = request.headers.get("Idempotency-Key")
    return read_key(
        text, (request.method or "").encode(), request.path.encode(), query, request.body
    )
