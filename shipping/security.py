"""Headers that browsers obey."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from shipping.sync_async import SyncAsyncMiddleware

# JSON and documents: if a browser shows them, they may not run or load anything.
API_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
# Pages of ours bring no inline script and load nothing from elsewhere.
PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
PERMISSIONS = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"


class SecurityHeadersMiddleware(SyncAsyncMiddleware):
    """Adds what a view has not set itself."""

    def answer(self, request: HttpRequest) -> HttpResponseBase:
        """Answer in a worker."""
        return with_headers(request, self.get_response(request))

    async def answer_async(self, request: HttpRequest) -> HttpResponseBase:
        """Answer in a loop."""
        return with_headers(request, await self.get_response(request))


def with_headers(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Set the headers that are not there yet."""
    api = request.path.lstrip("/").startswith("api/")  # as the routes have it
    headers = {
        "Content-Security-Policy": API_POLICY if api else PAGE_POLICY,
        "Permissions-Policy": PERMISSIONS,
    }
    if api:
        headers["Cache-Control"] = "no-store"  # names and addresses must not be cached
    for name, value in headers.items():
        response.headers.setdefault(name, value)
    return response
