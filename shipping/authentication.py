"""HTTP Basic by key pair: the public key is the user, the secret key the password.

With a limit on failures by address: each that is looked up costs a query.

By process and in memory: what is bounded is the database's work, and a failure that needed Redis
would only move it. Keys that worked lately in this process pass whatever fails beside them: behind
a proxy that is not in TRUSTED_PROXIES all clients have one address. For BELIEVED seconds they are
not looked up again.
"""

from __future__ import annotations

import hashlib
from time import monotonic
from typing import Any

import structlog
from django.http import HttpRequest
from rest_framework.authentication import BasicAuthentication
from rest_framework.exceptions import AuthenticationFailed, Throttled
from rest_framework.request import Request

from parcels import limits, metrics
from parcels.models import Account, ApiKey
from shipping.client_address import client_network

# Addresses and keys that are remembered: some MB at most. Above it all are forgotten.
REMEMBERED = 10_000
# Seconds that a key is believed which was looked up: a shop's requests come in bursts. So long a
# key that was revoked, and an account that was switched off or limited, goes on as before.
BELIEVED = 5.0
# Compared with when the public key is unknown: both failures then do the same work.
_NOBODY = ApiKey(public_key="", digest="0" * 64, secret_hash="0" * 64)
_LONGEST = ApiKey._meta.get_field("public_key").max_length or 0


class Failures:
    """Counts failures by address in windows of a minute."""

    def __init__(self) -> None:
        self._windows: dict[str, tuple[float, int]] = {}

    def wait(self, request: Any) -> float:
        """Return the seconds until the request's address may fail again; 0: now."""
        if not self._windows:  # the usual case: no address needs to be read
            return 0.0
        end, count = self._windows.get(client_network(request), (0.0, 0))
        return max(end - monotonic(), 0.0) if count >= limits.FAILED_KEYS else 0.0

    def count(self, request: Any) -> None:
        """Note a failure; without an address it would be everybody's."""
        if not (address := client_network(request)):
            return
        end, count = self._windows.get(address, (0.0, 0))
        if end <= monotonic():
            end, count = monotonic() + 60, 0
        if len(self._windows) >= REMEMBERED:
            self._windows.clear()
        self._windows[address] = end, count + 1

    def forget(self) -> None:
        """Let all addresses fail again."""
        self._windows.clear()


FAILURES = Failures()
# By a hash of both keys: until when it is believed, and what was found.
_worked: dict[bytes, tuple[float, ApiKey]] = {}


class KeyPairAuthentication(BasicAuthentication):
    """Make `request.user` the account, and `request.auth` the key.

    Answers 429, without a query, to an address that fails too often.
    """

    www_authenticate_realm = "api"

    def authenticate_credentials(  # type: ignore[override] # the user is an account here
        self, userid: str, password: str, request: HttpRequest | Request | None = None
    ) -> tuple[Account, ApiKey]:
        digest = hashlib.sha256(f"{userid}:{password}".encode()).digest()
        until, key = _worked.get(digest, (0.0, None))
        if key is None or until <= monotonic():
            key = _look_up(userid, password, digest, request)
        structlog.contextvars.bind_contextvars(account=key.account_id)
        return key.account, key


def _look_up(userid: str, password: str, digest: bytes, request: Any) -> ApiKey:
    wait = FAILURES.wait(request)
    if wait and digest not in _worked:
        metrics.THROTTLED.labels("keys").inc()
        raise Throttled(wait)
    # PostgreSQL refuses NUL instead of finding nothing; a longer text can't be a key.
    if "\0" in userid or len(userid) > _LONGEST:
        userid = ""
    key = (
        ApiKey.objects.select_related("account__sender_address")
        .filter(public_key=userid, revoked_at=None, account__is_active=True)
        .first()
    )
    matches = (key or _NOBODY).matches(password)
    if key is None or not matches:
        _worked.pop(digest, None)
        FAILURES.count(request)
        raise AuthenticationFailed("Invalid username/password.")
    if not key.digest:
        key.keep_digest(password)
    if len(_worked) >= REMEMBERED:
        _worked.clear()
    _worked[digest] = monotonic() + BELIEVED, key
    return key
