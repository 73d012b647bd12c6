"""What the API's views ask before each request."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from parcels import metrics
from parcels.models import Account
from parcels.throttling.counting import windows
from parcels.throttling.limits import Limit, parse_limits

if TYPE_CHECKING:  # the view's module imports this one
    from rest_framework.views import APIView

log = logging.getLogger(__name__)
_READING = ("GET", "HEAD", "OPTIONS")


class AccountThrottle(BaseThrottle):
    """Reading and writing have windows of their own; an account's own limits win."""

    _wait: float | None = None

    def allow_request(self, request: Request, view: APIView) -> bool:
        account = request.user
        if not isinstance(account, Account):
            return True
        kind = "read" if request.method in _READING else "write"
        limits = limits_of(account, kind)
        if not limits:
            return True
        self._wait = windows().wait(f"{account.pk}:{kind}", limits)
        if self._wait:
            metrics.THROTTLED.labels(kind).inc()
        return not self._wait

    def wait(self) -> float | None:
        """Return what Retry-After says, in seconds; the framework rounds it up."""
        return self._wait


def charge_parcels(account: Account, parcels: int) -> None:
    """Charge a request that makes several parcels for all but the one that it has counted as.

    The batch passes if one would: its size is known only when it has been read. Later requests wait
    longer.
    """
    limits = limits_of(account, "write")
    if limits and parcels > 1:
        windows().wait(f"{account.pk}:write", limits, charge=parcels - 1)


def limits_of(account: Account, kind: str) -> tuple[Limit, ...]:
    """Return the account's own limits, else the general ones."""
    general = settings.THROTTLE_READ if kind == "read" else settings.THROTTLE_WRITE
    own = account.read_limit if kind == "read" else account.write_limit
    try:
        return parse_limits(own or general)
    except ValueError:
        log.error("account %s has a %s_limit that can't be read", account.pk, kind)
        return parse_limits(general)
