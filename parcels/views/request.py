"""What is done with a request before its view: its account's limits, its body, how it asks.

`rest_framework.views` imports this module, and what it imports may not import that one.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any, cast

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.utils.json import strict_constant

import offload
from parcels import limits, metrics
from parcels.json_values import check_texts, is_too_deep
from parcels.models import Account
from parcels.representation import Question
from parcels.services.holds import ASYNC, Asked
from parcels.throttling.counting import windows
from parcels.throttling.limits import parse_limits

if TYPE_CHECKING:
    from rest_framework.views import APIView

log = logging.getLogger(__name__)
_READING = ("GET", "HEAD", "OPTIONS")
# The escapes that stand for what no database takes, or UTF-8 can't have. A pair of surrogates is
# one character, and a backslash may be escaped itself: a find is looked at, not refused.
_SUSPECT = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
TOO_DEEP = f"JSON parse error - nested deeper than {limits.DEPTH}"
ERROR_MODES = ("", "verbose", "verbose-carrier")
_WAIT = re.compile(r"^wait\s*=\s*\"?(\d+)\"?$", re.IGNORECASE)


class AccountThrottle(BaseThrottle):
    """Reading and writing have windows of their own; an account's own limits win."""

    _wait: float | None = None

    def allow_request(self, request: Request, view: APIView) -> bool:
        if isinstance(request.user, Account):
            kind = "read" if request.method in _READING else "write"
            self._wait = count(request.user, kind)
            if self._wait:
                metrics.THROTTLED.labels(kind).inc()
        return not self._wait

    def wait(self) -> float | None:
        """Return what Retry-After says, in seconds; the framework rounds it up."""
        return self._wait


def count(account: Account, kind: str, *, charge: int = 0) -> float:
    """Count a request to "read" or "write"; return 0, or the seconds until one may pass.

    The account's own limits, else the general ones. A batch passes if one parcel would: its size is
    known only when it has been read. The rest is a `charge`, for which later requests wait longer.
    """
    general = settings.THROTTLE_READ if kind == "read" else settings.THROTTLE_WRITE
    own = account.read_limit if kind == "read" else account.write_limit
    try:
        found = parse_limits(own or general)
    except ValueError:
        log.error("account %s has a %s_limit that can't be read", account.pk, kind)
        found = parse_limits(general)
    return windows().wait(f"{account.pk}:{kind}", found, charge=charge) if found else 0.0


class AnyTypeJSONParser(JSONParser):
    """Read the body as JSON, whatever its Content-Type.

    Published clients of this dialect send JSON without a Content-Type, and one sends a form
    labelled JSON: the first must work, the second is a 400 like any other malformed body.
    """

    media_type = "*/*"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        try:
            text = stream.read().decode()  # JSON is UTF-8: see shipping.charset
            containers = text.count("{") + text.count("[")
            if containers + text.count(",") > limits.VALUES:  # counted before each takes memory
                raise ParseError(f"JSON parse error - more than {limits.VALUES} values")
            value = _DECODER.decode(text)
        except ValueError as error:
            raise ParseError(f"JSON parse error - {error}") from None
        except RecursionError:
            raise ParseError(TOO_DEEP) from None
        if containers > limits.DEPTH and is_too_deep(value):
            raise ParseError(TOO_DEEP)
        if _SUSPECT.search(text):
            check_texts(value)
        return value


def _number(literal: str) -> int | float:
    if len(literal) > limits.NUMBER:
        raise ValueError(f"a number of more than {limits.NUMBER} characters")
    if literal.lstrip("-").isdecimal():
        return int(literal)
    value = float(literal)
    if value and not 1 / limits.MAGNITUDE <= abs(value) <= limits.MAGNITUDE:
        raise ValueError("a number is out of range")
    return value


# Made once: a decoder with hooks costs as much to make as a parcel to read.
_DECODER = json.JSONDecoder(parse_int=_number, parse_float=_number, parse_constant=strict_constant)


def account_of(request: Request) -> Account:
    """Return the account of the request."""
    return cast(Account, request.user)


def base_url(request: Request) -> str:
    """Return what absolute URLs begin with: the configured public URL, else the request's host."""
    return settings.PUBLIC_URL or f"{request.scheme}://{request.get_host()}"


def asked(request: Request, *, many: bool = False, wait: float | None = None) -> Asked:
    """Return how the client asked; `wait` in seconds, else a writing request's Prefer says.

    An unknown value of `errors` is ignored, and what isn't understood of Prefer, as RFC 7240 asks;
    with both preferences it is answered without the label after the wait.
    """
    said = "" if request.method in _READING else request.headers.get("Prefer", "")
    preferences = [preference.split(";")[0].strip() for preference in said.split(",")]
    if wait is None and (waits := [*filter(None, map(_WAIT.match, preferences))]):
        wait = float(waits[0][1])
    respond_async = wait is None and ASYNC in map(str.lower, preferences)
    seconds = float(min(settings.WAIT_DEFAULT if wait is None else wait, settings.WAIT_MAXIMUM))
    errors = request.query_params.get("errors", "")
    return Asked(
        account=cast(Account, request.user),
        question=Question(
            parcels=[],
            base=base_url(request),
            path=request.path,
            many=many,
            errors=errors if errors in ERROR_MODES else "",  # type: ignore[arg-type] # one of them
            preferred=ASYNC if respond_async else "" if wait is None else f"wait={seconds:.0f}",
        ),
        respond_async=respond_async,
        seconds=seconds,
        # Not from the begin of the view: in a burst, requests queue before it.
        until=offload.arrived_at(request) + seconds,
    )
