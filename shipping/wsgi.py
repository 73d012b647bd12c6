"""WSGI entry point, for every strategy whose server speaks WSGI or uwsgi."""

import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application

from shipping.charset import Utf8WSGIRequest
from shipping.chunks import measure_chunks
from shipping.loading import load_views
from shipping.unread import drain_unread_body

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shipping.settings")

if os.environ.get("REQUIRE_GEVENT") == "1":
    from shipping.gevent_check import require_gevent

    require_gevent()

_django = get_wsgi_application()
_django.request_class = Utf8WSGIRequest
application = measure_chunks(drain_unread_body(_django), settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
load_views()
