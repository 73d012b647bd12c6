"""WSGI entry point, for every strategy whose server speaks WSGI or uwsgi."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shipping.settings")

if os.environ.get("REQUIRE_GEVENT") == "1":
    from shipping.gevent_check import require_gevent

    require_gevent()

application = get_wsgi_application()
