"""`path("", include("offload.urls"))`: internal, for the hub and the front's script."""

from __future__ import annotations

from django.urls import path

from offload import views
from offload.protocol import ANSWERS_PATH

app_name = "offload"

urlpatterns = [
    path(ANSWERS_PATH.lstrip("/"), views.answers, name="answers"),
    path("_offload/poll/<str:ticket>", views.poll, name="poll"),
    path("_offload/late/<str:name>", views.late, name="late"),
]
