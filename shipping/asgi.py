"""ASGI entry point: Django, wrapped in limits and, if the strategy holds here, in
HoldMiddleware."""

import json
import os
from importlib import import_module
from typing import Any

from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application

from shipping.charset import Utf8ASGIRequest, Utf8WSGIRequest

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shipping.settings")


def _application() -> Any:
    django = get_asgi_application()  # sets Django up first
    from django.conf import settings

    from offload.intake import Intake
    from shipping.exceptions import error_body

    return Intake(
        _holding(django),
        max_body=settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
        connections=settings.FRONT_CONNECTIONS_PER_ADDRESS,
        words=lambda *error: json.dumps(error_body(*error)).encode(),
    )


def _holding(django: Any) -> Any:
    from django.conf import settings

    if settings.OFFLOAD["BACKEND"] != "asgi":
        django.request_class = Utf8ASGIRequest
        return django
    from offload.asgi import HoldMiddleware
    from offload.resolving import hold_middleware_options
    from offload.threads import InThreads

    # The views are synchronous: the way through Django's WSGI handler costs a third less.
    options = hold_middleware_options()
    in_threads = get_wsgi_application()
    in_threads.request_class = Utf8WSGIRequest
    return HoldMiddleware(InThreads(in_threads, threads=options["max_concurrency"]), **options)


application = _application()
# Else the first clients would wait a second for the views, in several threads at once.
import_module("shipping.urls")
