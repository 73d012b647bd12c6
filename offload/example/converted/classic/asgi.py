"""ASGI entry point."""

import os

from offload import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "classic.settings")
application = get_asgi_application()
