"""The way to the live page, which is a process of its own: none of ours serves it."""

import hashlib
import hmac
import time
from typing import cast
from urllib.parse import quote

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render

from parcels.views.staff import staff_with
from shipping import env

# Where the process listens; empty where there is none.
LIVE_URL = env.text("LIVE_URL", "").rstrip("/")
# Proves operators' tickets to it; empty closes the controls to all but the demo's own machine.
LIVE_SECRET = env.secret("LIVE_SECRET", development="")
# Seconds: enough to handle one outage. The ticket stays in the browser's tab.
TICKET_LIFE = 3600


def front_page(request: HttpRequest) -> HttpResponse:
    """Send a reader of `/` to the live page."""
    if not LIVE_URL:
        raise Http404
    return HttpResponseRedirect(f"{LIVE_URL}/")


@staff_with("parcels.control_live")
def controls(request: HttpRequest) -> HttpResponse:
    """Send an operator to the live page with a ticket, which opens its controls.

    In the fragment: it reaches neither a server's log nor a Referer. By a page: a redirect would
    end the login's form at another origin, which browsers refuse (`form-action`).
    """
    if not LIVE_URL or not LIVE_SECRET:
        raise Http404
    user = cast(User, request.user)
    LogEntry.objects.log_actions(user.pk, [user], CHANGE, "Got a ticket to the live page.")
    given = ticket(LIVE_SECRET, user.pk, time.time())
    address = f"{LIVE_URL}/#ticket={quote(given)}"
    response = render(request, "parcels/operator/live.html", {"address": address})
    response["Cache-Control"] = "no-store"
    return response


def ticket(secret: str, user_id: int, now: float) -> str:
    """Return `<expiry>.<user's id>.<HMAC-SHA256>`, as deploy.live.access reads it."""
    signed = f"{int(now) + TICKET_LIFE}.{user_id}"
    digest = hmac.new(secret.encode(), f"live:{signed}".encode(), hashlib.sha256)
    return f"{signed}.{digest.hexdigest()}"
