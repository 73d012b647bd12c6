"""Who may turn the knobs: this machine in demo mode, or an operator with a ticket.

A ticket is what the application's operator pages hand out: `<expiry>.<user's id>.<HMAC-SHA256>`
under LIVE_SECRET, good for an hour.
"""

import hashlib
import hmac
import time
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from starlette.requests import Request

# A page of another origin can't send it without asking first, and we never answer that question.
HEADER = "X-Live"
LOOPBACK = {"127.0.0.1", "::1"}
LOCAL_NAMES = LOOPBACK | {"localhost"}


def _parts(address: str) -> SplitResult:
    """Take an address apart; what is none has empty parts."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def user_of(secret: str, ticket: str, now: float) -> str:
    """Return the id of the user whose ticket it is; empty if it is not ours, or over."""
    signed, _, digest = ticket.rpartition(".")
    ours = hmac.new(secret.encode(), f"live:{signed}".encode(), hashlib.sha256).hexdigest()
    if not secret or not ticket.isascii() or not hmac.compare_digest(ours, digest):
        return ""
    # Only what we have signed is read: a number of any length would be work, or an error.
    expiry, _, user = signed.partition(".")
    return user if now < int(expiry) else ""


@dataclass(frozen=True)
class Access:
    """The rules of one run: `demo` trusts this machine, `secret` proves operators' tickets."""

    demo: bool
    secret: str = ""

    def may_see_controls(self, request: Request) -> bool:
        """Say whether the page should offer controls to this client."""
        return self._is_local(request) or bool(self.operator(request))

    def may_control(self, request: Request) -> bool:
        """Say whether this request may change anything: the right client, and sent by our page."""
        origin = request.headers.get("origin")
        elsewhere = origin is not None and _parts(origin).netloc != request.headers.get("host")
        return HEADER in request.headers and not elsewhere and self.may_see_controls(request)

    def _is_local(self, request: Request) -> bool:
        """By address and by name: a foreign name that resolves to loopback is somebody's trick.

        What a proxy has passed on comes from loopback, too, and is not local.
        """
        client = request.client.host if request.client else ""
        forwarded = {"forwarded", "x-forwarded-for", "x-real-ip"} & set(request.headers)
        name = _parts(f"//{request.headers.get('host', '')}").hostname
        return self.demo and client in LOOPBACK and name in LOCAL_NAMES and not forwarded

    def operator(self, request: Request) -> str:
        """Return the id of the operator who sends this; empty without a ticket."""
        scheme, _, ticket = request.headers.get("authorization", "").partition(" ")
        return user_of(self.secret, ticket, time.time()) if scheme == "Bearer" else ""
