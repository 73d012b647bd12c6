"""All routes: the API, the admin, health. offload's internal side needs none."""

from django.contrib import admin
from django.urls import include, path, re_path

from parcels.views.tracking_page import tracking_page
from shipping import health, live, login, metrics

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
]

handler400 = "shipping.exceptions.bad_request"
handler404 = "shipping.exceptions.not_found"
handler500 = "shipping.exceptions.server_error"
