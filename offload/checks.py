"""System checks of settings.OFFLOAD and of the settings that it needs."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router
from django.utils.module_loading import import_string

from offload import conf, fronts
from offload.awaited import awaited_models
from offload.keys import ANSWERS_PATH
from offload.redis_clients import sync_client
from offload.tasks import RUNNERS
from offload.tickets import SECRET_LENGTH

MIDDLEWARE = "offload.middleware.OffloadMiddleware"


def check_offload(**_: Any) -> list[CheckMessage]:
    """Return what is wrong with the settings; each message has an id and a hint."""
    try:
        offload = conf.read(getattr(settings, "OFFLOAD", {}))
        front = fronts.FRONTS[offload.backend]
    except ImproperlyConfigured as error:
        known = ", ".join(map(repr, fronts.FRONTS))
        hint = f"The settings are {', '.join(sorted(conf.NAMES))}; the fronts are {known}."
        return [Error(str(error), hint=hint, id="offload.E001")]
    return [*_check_store(offload), *_check_tasks(offload), *_check_front(offload, front)]


def _check_front(offload: conf.Offload, front: fronts.Front) -> Iterator[CheckMessage]:
    try:
        found = callable(import_string(offload.resolve))
    except ImportError:
        found = False
    if not found:
        yield Error(
            f"OFFLOAD['RESOLVE'] = {offload.resolve!r} can't be imported and called.",
            hint="Name a function resolve(hold_ids, *, final_only) -> {hold_id: HttpResponse}.",
            id="offload.E004",
        )
    if not front.holds:
        if MIDDLEWARE not in settings.MIDDLEWARE:
            yield Warning(
                "OffloadMiddleware is not in MIDDLEWARE: no client of hold() or run() waits.",
                hint=f"Put {MIDDLEWARE!r} first. Only wait() and release() need none.",
                id="offload.W012",
            )
        return
    # Where no hub must know it, it is made of SECRET_KEY.
    given = (offload.secret, *offload.secret_fallbacks) if offload.secret or front.remote else ()
    if any(len(each) < SECRET_LENGTH for each in given):
        yield Error(
            "OFFLOAD['SECRET'] or one of SECRET_FALLBACKS is missing or short: tickets could be "
            "forged.",
            hint=f"Set {SECRET_LENGTH} random characters or more; the hub needs the same.",
            id="offload.E002",
        )
    if list(settings.MIDDLEWARE[:1]) != [MIDDLEWARE]:
        yield Error(
            "OffloadMiddleware is not the outermost middleware.",
            hint=f"Put {MIDDLEWARE!r} first: what others add later would not reach held clients.",
            id="offload.E003",
        )
    if front.remote and not offload.resolve_url.endswith(ANSWERS_PATH):
        yield Warning(
            f"OFFLOAD['RESOLVE_URL'] = {offload.resolve_url!r} does not end with {ANSWERS_PATH}: a "
            "hub without it can't ask the app when the store has lost an answer.",
            hint=f"Set it to this app's internal address with {ANSWERS_PATH}, as for the hub.",
            id="offload.W005",
        )
    kept = [name for name, database in settings.DATABASES.items() if database.get("CONN_MAX_AGE")]
    if kept and not front.remote:
        yield Warning(
            f"CONN_MAX_AGE is set for {', '.join(kept)}: under ASGI each request has a thread of "
            "its own, and its kept connection is never used again.",
            hint="Set CONN_MAX_AGE to 0; use a pool.",
            id="offload.W008",
        )


def _check_store(offload: conf.Offload) -> Iterator[CheckMessage]:
    if offload.store not in {"redis", "postgresql"}:
        yield Error(
            f"OFFLOAD['STORE'] = {offload.store!r}: there is no such store.",
            hint="It is 'redis' or 'postgresql'.",
            id="offload.E011",
        )
    elif offload.store == "redis":
        try:
            sync_client(offload.redis_url)
        except ValueError:  # whose words may show a piece of the password
            yield Error(
                "OFFLOAD['REDIS_URL'] is not the address of a Redis.",
                hint="It is like redis://:password@host:6379/0; in a password, %2F is / and %23 #.",
                id="offload.E011",
            )
    elif not (
        apps.is_installed("offload.postgresql")
        and offload.database in settings.DATABASES
        and connections[offload.database].vendor == "postgresql"
        and router.allow_migrate(offload.database, "offload_postgresql")
        and find_spec("psycopg")
    ):
        yield Error(
            "OFFLOAD['STORE'] = 'postgresql' has no table, no PostgreSQL or no psycopg.",
            hint="Add 'offload.postgresql' to INSTALLED_APPS, migrate, let OFFLOAD['DATABASE'] "
            "name a PostgreSQL of DATABASES where your router allows the migration, and install "
            "psycopg 3: nothing waits by psycopg2.",
            id="offload.E011",
        )


def _check_tasks(offload: conf.Offload) -> Iterator[CheckMessage]:
    if offload.tasks not in RUNNERS:
        yield Error(
            f"OFFLOAD['TASKS'] = {offload.tasks!r}: no such queue, or it is not installed.",
            hint="It is 'celery', 'django' (from Django 6.0), or 'thread' for development.",
            id="offload.E009",
        )
    elif offload.tasks == "thread" and not settings.DEBUG and any(awaited_models()):
        yield Warning(
            "OFFLOAD['TASKS'] = 'thread': work that has begun is lost with the web process.",
            hint="Name a queue: 'celery', or 'django' from Django 6.0.",
            id="offload.W010",
        )
    elif offload.tasks == "django":
        queue = str(getattr(settings, "TASKS", {}).get("default", {}).get("BACKEND"))
        if queue.startswith("django.tasks."):
            yield Warning(
                f"OFFLOAD['TASKS'] = 'django' with {queue}: no worker does the work.",
                hint="Let TASKS['default'] name a queue, as 'django_tasks_db.DatabaseBackend': "
                "Django's own work in the request, or not at all.",
                id="offload.W010",
            )
