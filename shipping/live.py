"""The way to the live page, which is a process of its own: none of ours serves it."""

from __future__ import annotations

import hashlib
import hmac
import time
from urllib.parse import quote

from django.contrib.admin.views.decorators import staff_member_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect

from shipping import env

# Where the process listens; empty where there is none.
LIVE_URL = env.text("LIVE_URL", "").rstrip("/")
# Proves operators' tickets to it; empty closes the controls to all but the demo's own machine.
LIVE_SECRET = env.secret("LIVE_SECRET", development="")
# Seconds: one outage's work. The ticket stays in the browser's tab.
TICKET_LIFE = 3600


def front_page(request: HttpRequest) -> HttpResponse:
    """Send a reader of `/` to the live page."""
    if not LIVE_URL:
        raise Http404
    return HttpResponseRedirect(f"{LIVE_URL}/")


@staff_member_required
def controls(request: HttpRequest) -> HttpResponse:
    """Send an operator to the live page with a ticket, which opens its controls.

    In the fragment: it reaches neither a server's log nor a Referer.
    """
    if not LIVE_URL or not LIVE_SECRET:
        raise Http404
    return HttpResponseRedirect(f"{LIVE_URL}/#ticket={quote(ticket(LIVE_SECRET, time.time()))}")


def ticket(secret: str, now: float) -> str:
    """Return `<expiry>.<HMAC-SHA256>`, as deploy.live.access reads it."""
    expiry = int(now) + TICKET_LIFE
    digest = hmac.new(secret.encode(), f"live:{expiry}".encode(), hashlib.sha256)
    return f"{expiry}.{digest.hexdigest()}"
