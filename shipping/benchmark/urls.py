"""The project's addresses, and the yardstick's."""

from django.urls import path

from shipping.benchmark.view import BareView
from shipping.urls import handler404, handler500
from shipping.urls import urlpatterns as project

urlpatterns = [path("bare/parcels", BareView.as_view()), *project]

__all__ = ["handler404", "handler500", "urlpatterns"]
