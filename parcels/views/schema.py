"""The OpenAPI document, and a page to try it. Both are public: they have no account's data."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from drf_spectacular.views import SpectacularSwaggerSplitView
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from parcels.openapi.document import document_bytes

# Everything from here; the page's own library sets styles inline and draws icons from data.
DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@csrf_exempt  # else a POST is refused before its method is
@require_safe
def schema(request: HttpRequest) -> HttpResponse:
    """Send the OpenAPI document."""
    return HttpResponse(document_bytes(), content_type="application/vnd.oai.openapi+json")


class DocsView(SpectacularSwaggerSplitView):
    """`/docs`: the script is a file of its own, so that no inline script need be allowed."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    throttle_classes = ()
    # The framework's answer to OPTIONS fails with this view's template.
    http_method_names = ("get", "head")
    url_name = "schema"

    def finalize_response(
        self, request: Request, response: Response, *args: object, **kwargs: object
    ) -> Response:
        response = super().finalize_response(request, response, *args, **kwargs)
        response["Content-Security-Policy"] = DOCS_POLICY
        return response
