"""All routes: the API, the admin, health. offload's internal side needs none."""

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import include, path, re_path

from parcels.views.tracking_page import tracking_page
from shipping import health, live, login, metrics


def no_icon(request: HttpRequest) -> HttpResponse:
    """Have a browser ask once a day; on the admin's pages, which name none, it does by itself."""
    return HttpResponse(status=204, headers={"Cache-Control": "max-age=86400"})


urlpatterns = [
    path("", live.front_page, name="front_page"),
    # A published client in Go puts a slash between a host that ends with one and this path.
    re_path(r"^/?api/v2/", include("parcels.urls")),
    path("tracking/<str:token>", tracking_page, name="tracking_page"),
    path("admin/login/", login.login, name="login"),  # before the admin's own
    path("admin/", admin.site.urls),
    path("operator/live", live.controls, name="live_controls"),
    path("operator/", include("parcels.operator_urls")),
    re_path(r"^healthz/?$", health.alive, name="alive"),
    re_path(r"^readyz/?$", health.ready, name="ready"),
    path("metrics", metrics.show, name="metrics"),
    path("favicon.ico", no_icon, name="icon"),
]

handler400 = "shipping.exceptions.bad_request"
handler404 = "shipping.exceptions.not_found"
handler500 = "shipping.exceptions.server_error"
