"""WSGI entry point, for every strategy whose server speaks WSGI or uwsgi."""

import os

from django.core.wsgi import get_wsgi_application

from shipping.loading import load_views
from shipping.unread import reading_the_rest

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shipping.settings")

if os.environ.get("REQUIRE_GEVENT") == "1":
    from shipping.gevent_check import require_gevent

    require_gevent()

application = reading_the_rest(get_wsgi_application())
load_views()
