"""Headers that browsers obey, and a limit on guessing the admin's password."""

from __future__ import annotations

import hashlib
import logging

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from parcels import metrics
from parcels.throttling.counting import windows
from parcels.throttling.limits import parse_limits
from shipping.either_way import EitherWay

log = logging.getLogger(__name__)

# JSON and documents: nothing in them may run or load anything, should a browser show them.
API_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
# Pages of ours bring no inline script and load nothing from elsewhere.
PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
PERMISSIONS = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"
LOGIN = "/admin/login/"
# A person who has forgotten a password tries some five times. Per address, and per name for
# guessers with many addresses; the second is wide, so that nobody can lock a colleague out.
PER_ADDRESS = parse_limits("10/min,60/hour")
PER_NAME = parse_limits("100/hour")


class SecurityHeadersMiddleware(EitherWay):
    """Adds what a view has not set itself, and stops guessing at the admin's door."""

    def answer(self, request: HttpRequest) -> HttpResponseBase:
        """Answer in a worker."""
        return with_headers(request, stopped(request) or self.get_response(request))

    async def answer_async(self, request: HttpRequest) -> HttpResponseBase:
        """Answer in a loop."""
        early = await sync_to_async(stopped)(request) if _is_login(request) else None
        return with_headers(request, early or await self.get_response(request))


def with_headers(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Set the headers that are not there yet."""
    api = request.path.lstrip("/").startswith("api/")  # as the routes have it
    headers = {
        "Content-Security-Policy": API_POLICY if api else PAGE_POLICY,
        "Permissions-Policy": PERMISSIONS,
    }
    if api:
        headers["Cache-Control"] = "no-store"  # names and addresses have no place in a cache
    for name, value in headers.items():
        response.headers.setdefault(name, value)
    return response


def _is_login(request: HttpRequest) -> bool:
    return request.method == "POST" and request.path == LOGIN


def stopped(request: HttpRequest) -> HttpResponse | None:
    """Return a 429 when somebody tries to log in too often; Redis gone: nobody is stopped."""
    if not _is_login(request):
        return None
    name = hashlib.sha256(request.POST.get("username", "").encode()).hexdigest()[:32]
    wait = max(
        windows().wait(f"login:{request.META.get('REMOTE_ADDR', '')}", PER_ADDRESS),
        windows().wait(f"login:{name}", PER_NAME),
    )
    if not wait:
        return None
    metrics.THROTTLED.labels("login").inc()
    log.warning("too many tries to log in at the admin")
    response = HttpResponse("Too many tries. Wait a little.", status=429, content_type="text/plain")
    response["Retry-After"] = str(int(wait) + 1)
    return response
