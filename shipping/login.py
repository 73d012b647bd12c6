"""The admin's login, with a limit on guessing: failures count, by network and by name.

A browser from which a name has logged in before is known by a signed cookie and has a count of its
own: however many others guess, they don't lock it out. See OWASP's "device cookies".
"""

import functools
import hashlib
import logging
from collections.abc import Iterator

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.forms import UsernameField
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from parcels import metrics
from parcels.throttling.counting import windows
from parcels.throttling.limits import Limit, parse_limits
from shipping.client_address import client_network

log = logging.getLogger(__name__)

# A person who has forgotten a password tries some five times.
PER_NETWORK = PER_BROWSER = parse_limits("10/min,60/hour")
# For attackers with many addresses: high, since an operator with a new browser is blocked, too.
PER_NAME = parse_limits("100/hour")
COOKIE = "known"
# A name that is longer than a user's is not normalised: that may take the square of its length.
NAME = UsernameField(max_length=User._meta.get_field("username").max_length)
# Seconds (90 days): longer than any absence.
KNOWN_FOR = 90 * 24 * 3600


@functools.wraps(admin.site.login)
def login(request: HttpRequest) -> HttpResponseBase:
    """Answer the login page; a 429 after too many failures. Without Redis there is no limit."""
    if request.method != "POST":
        return admin.site.login(request)
    name = _hashed_name(request)
    counted: list[tuple[str, tuple[Limit, ...]]] = []
    # A try counts before it is one, or many at once would all pass.
    for window in _windows_of(request, name):
        if wait := windows().wait(*window):
            return _too_many(wait)
        counted.append(window)
    response = admin.site.login(request)
    if response.status_code == 302:
        for window in counted:
            windows().give_back(*window)
        response.set_signed_cookie(
            COOKIE, name, salt=__name__, max_age=KNOWN_FOR, path=request.path,
            secure=settings.SESSION_COOKIE_SECURE, httponly=True, samesite="Lax",
        )  # fmt: skip
    return response


def _hashed_name(request: HttpRequest) -> str:
    """Return a hash of the name, normalised as by the login form: names must not be in Redis."""
    name = NAME.to_python(request.POST.get("username", "")) or ""
    return hashlib.sha256(name.encode(errors="replace")).hexdigest()[:32]


def _windows_of(request: HttpRequest, name: str) -> Iterator[tuple[str, tuple[Limit, ...]]]:
    if request.get_signed_cookie(COOKIE, "", salt=__name__, max_age=KNOWN_FOR) == name:
        yield f"login:known:{name}", PER_BROWSER
    else:
        yield f"login:{client_network(request)}", PER_NETWORK
        yield f"login:{name}", PER_NAME


def _too_many(wait: float) -> HttpResponse:
    metrics.THROTTLED.labels("login").inc()
    log.warning("too many login attempts at the admin")
    response = HttpResponse(
        "Too many attempts. Wait a moment.", status=429, content_type="text/plain"
    )
    response["Retry-After"] = str(int(wait) + 1)
    return response
