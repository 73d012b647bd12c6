"""Who may turn the knobs: this machine in demo mode, or an operator with a ticket.

A ticket is what the application's operator pages hand out: `<expiry>.<HMAC-SHA256>` under
LIVE_SECRET, good for an hour.
"""

import hashlib
import hmac
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request

# A page of another origin can't send it without asking first, and we never answer that question.
HEADER = "X-Live"
LOOPBACK = {"127.0.0.1", "::1"}
LOCAL_NAMES = LOOPBACK | {"localhost"}


def sign(secret: str, expiry: int) -> str:
    """Return a ticket that is good until `expiry` (Unix seconds)."""
    digest = hmac.new(secret.encode(), f"live:{expiry}".encode(), hashlib.sha256)
    return f"{expiry}.{digest.hexdigest()}"


def is_valid(secret: str, ticket: str, now: float) -> bool:
    """Say whether a ticket is ours and not over; without a secret none is."""
    expiry, _, _ = ticket.partition(".")
    # Of more digits int() raises an error; ten reach the year 2286.
    if not secret or not expiry.isdecimal() or len(expiry) > 10 or not ticket.isascii():
        return False
    return hmac.compare_digest(sign(secret, int(expiry)), ticket) and now < int(expiry)


@dataclass(frozen=True)
class Access:
    """The rules of one run: `demo` trusts this machine, `secret` proves operators' tickets."""

    demo: bool
    secret: str = ""

    def may_see_controls(self, request: Request) -> bool:
        """Say whether the page should offer controls to this client."""
        return self._is_local(request) or self._is_operator(request)

    def may_control(self, request: Request) -> bool:
        """Say whether this request may change anything: the right client, and sent by our page."""
        if HEADER not in request.headers or not _same_origin(request):
            return False
        return self.may_see_controls(request)

    def _is_local(self, request: Request) -> bool:
        """By address and by name: a foreign name that resolves to loopback is somebody's trick.

        What a proxy has passed on comes from loopback, too, and is not local.
        """
        client = request.client.host if request.client else ""
        forwarded = {"forwarded", "x-forwarded-for", "x-real-ip"} & set(request.headers)
        name = urlsplit(f"//{request.headers.get('host', '')}").hostname
        return self.demo and client in LOOPBACK and name in LOCAL_NAMES and not forwarded

    def _is_operator(self, request: Request) -> bool:
        scheme, _, ticket = request.headers.get("authorization", "").partition(" ")
        return scheme == "Bearer" and is_valid(self.secret, ticket, time.time())


def _same_origin(request: Request) -> bool:
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")
