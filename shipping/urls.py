"""All routes: the API, the admin, health. offload's internal side needs none."""

from django.contrib import admin
from django.urls import include, path, re_path

from shipping import health, live, metrics

urlpatterns = [
    path("", live.front_page, name="front_page"),
    path("api/v2/", include("parcels.urls")),
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
