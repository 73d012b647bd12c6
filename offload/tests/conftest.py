import contextlib
import os
import uuid

import aiohttp
import django
import pytest
from django.conf import settings
from django.db import connection
from django.test import override_settings

from offload import store
from offload.keys import ANSWER_KEY
from offload.protocol import decode_answer
from offload.pytest_plugin import offload_eager
from offload.tests.processes import SECRET, RedisServer, start_hub, start_project

if not settings.configured and "DJANGO_SETTINGS_MODULE" not in os.environ:
    # Alone, as lifted into another project: the unit tests override what they need.
    settings.configure(
        SECRET_KEY="x" * 50,
        ROOT_URLCONF="offload.tests.no_urls",
        ALLOWED_HOSTS=["*"],
        REST_FRAMEWORK={"UNAUTHENTICATED_USER": None},  # or DRF wants the apps of a user
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    )
    django.setup()


__all__ = ["offload_eager"]  # known by itself where the package is installed


@pytest.fixture
def redis_server(tmp_path):
    server = RedisServer(tmp_path)
    yield server
    server.client.close()
    server.process.end()


@pytest.fixture
def offload_settings():
    """Change settings.OFFLOAD: `offload_settings(BACKEND="accel")`; other settings by `also`."""
    from offload.checks import MIDDLEWARE  # its models want settings first

    with contextlib.ExitStack() as stack:

        def change(also=None, **values):
            base = {
                "SECRET": SECRET,
                "REDIS_URL": "redis://127.0.0.1:9/0",
                "RESOLVE_URL": "http://a/_offload/answers",
            }
            offload = {**base, "RESOLVE": "offload.tests.outcomes.resolve", **values}
            settings = {
                "MIDDLEWARE": [MIDDLEWARE],
                "ROOT_URLCONF": "offload.tests.no_urls",
                **(also or {}),
            }
            stack.enter_context(override_settings(OFFLOAD=offload, **settings))
            store._paused_until = 0.0

        yield change


@pytest.fixture(scope="session")
def order_tables(django_db_setup, django_db_blocker):
    from offload.tests.orders import Express, Line, Order

    with django_db_blocker.unblock(), connection.schema_editor() as editor:
        editor.create_model(Order)
        editor.create_model(Express)
        editor.create_model(Line)


@pytest.fixture
def orders(order_tables, db):
    """Empty tables of the models of `offload.tests.orders`.

    No installed app has them, so the flush after a transactional test leaves its rows.
    """
    from offload.tests.orders import Line, Order

    Order.objects.all().delete()
    Line.objects.all().delete()


@pytest.fixture
def stored(monkeypatch):
    """Stand in for the store: the answers that are released, by hold id."""
    answers = {}

    def write(_trouble, values, _wake_ups):
        for key, value, _ in values:
            answers[key.removeprefix(ANSWER_KEY)] = decode_answer(value)
        return True

    monkeypatch.setattr(store, "write", write)
    return answers


@pytest.fixture
def outcomes(tmp_path):
    directory = tmp_path / "outcomes"
    directory.mkdir()
    return directory


@pytest.fixture
def started():
    """Start servers that are ended after the test, the last one first."""
    processes = []

    def start(process):
        processes.append(process)
        return process

    yield start
    for process in reversed(processes):
        process.end()


@pytest.fixture
def project(redis_server, outcomes, started):
    """The test project, whose internal endpoint a hub can ask."""
    return started(start_project(redis_server.url, outcomes, BACKEND="accel"))


@pytest.fixture
def hub(redis_server, project, started):
    return started(start_hub(redis_server.url, f"{project.url}/_offload/answers"))


@pytest.fixture(params=["asgi", "wsgi"])
def asgi(request, redis_server, outcomes, started):
    """The test project that holds in process; by Django's ASGI handler, and by its WSGI one."""
    environment = {"BACKEND": "asgi", "HANDLER": request.param}
    return started(start_project(redis_server.url, outcomes, **environment))


@pytest.fixture
async def http():
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield session


@pytest.fixture
def hold_id():
    return uuid.uuid4().hex
