"""Settings for the converted project with PostgreSQL and nothing else: no Redis, no broker.

Web: `uvicorn classic.asgi:application`. Work: `python manage.py db_worker`. From Django 6.0
(Python 3.12), with `pip install "./offload[hub,postgresql]" django-tasks-db` (offload is not on
PyPI, but a folder).
"""

import os

from classic.settings import *  # noqa: F403
from classic.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "offload.postgresql", "django_tasks_db"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "postgres",
        "USER": "postgres",
        "HOST": "127.0.0.1",
        "PORT": os.environ.get("PGPORT", "5432"),
        "OPTIONS": {"connect_timeout": 2},
    }
}
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}
OFFLOAD = {"BACKEND": "asgi", "STORE": "postgresql", "TASKS": "django"}
