"""ASGI entry point: Django, and around it what holds clients where the strategy says so."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shipping.settings")

application = get_asgi_application()

from django.conf import settings  # noqa: E402 # Django must be set up first

if settings.OFFLOAD["BACKEND"] == "asgi":
    from offload.asgi import HoldMiddleware
    from offload.resolving import hold_middleware_options

    application = HoldMiddleware(application, **hold_middleware_options())  # type: ignore[assignment] # ASGI wraps ASGI
