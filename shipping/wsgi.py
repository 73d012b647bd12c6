"""WSGI entry point, for every strategy whose server speaks WSGI or uwsgi."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shipping.settings")

application = get_wsgi_application()
