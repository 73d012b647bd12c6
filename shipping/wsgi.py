"""WSGI entry point, for every strategy whose server speaks WSGI or uwsgi."""

import os
from importlib import import_module

from django.conf import settings
from django.core.wsgi import get_wsgi_application

from shipping.charset import Utf8WSGIRequest
from shipping.chunks import measure_chunks
from shipping.unread import drain_unread_body

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shipping.settings")

if os.environ.get("REQUIRE_GEVENT") == "1":
    from shipping.gevent_check import require_gevent

    require_gevent()

_django = get_wsgi_application()
_django.request_class = Utf8WSGIRequest
application = measure_chunks(drain_unread_body(_django), settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
# Else the first clients would wait a second for the views, in several threads of a process at once;
# if the server forks afterwards, it is done once for all its processes.
import_module("shipping.urls")
