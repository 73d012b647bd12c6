"""URLs of a project that has ours."""

from django.urls import include, path

urlpatterns = [path("", include("offload.urls"))]
