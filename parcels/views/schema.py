"""The OpenAPI document, and a page to try it. Both are public: they have no account's data."""

from django.http import HttpResponse
from drf_spectacular.views import SpectacularSwaggerSplitView
from rest_framework.permissions import AllowAny
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from parcels.openapi.document import document_bytes
from parcels.views.documents import PaperView

# Everything from here; the page's own library sets styles inline and draws icons from data.
DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class Public(APIView):
    """Open to all, and for reading only."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    throttle_classes = ()
    # The framework's answer to OPTIONS fails with the template of `/docs`.
    http_method_names = ("get", "head")


class SchemaView(Public, PaperView):
    """`/schema`"""

    def get(self, request: Request) -> HttpResponse:
        """Send the OpenAPI document."""
        return HttpResponse(document_bytes(), content_type="application/vnd.oai.openapi+json")


class DocsView(Public, SpectacularSwaggerSplitView):
    """`/docs`: the script is a file of its own, so that no inline script need be allowed."""

    url_name = "schema"
    template_name = "parcels/docs.html"  # on a phone the library's groups are a column of letters

    def finalize_response(
        self, request: Request, response: Response, *args: object, **kwargs: object
    ) -> Response:
        if response.status_code >= 400:  # in the API's shape, not in the page's template
            request.accepted_renderer = JSONRenderer()
            request.accepted_media_type = JSONRenderer.media_type
        response = super().finalize_response(request, response, *args, **kwargs)
        response["Content-Security-Policy"] = DOCS_POLICY
        return response
