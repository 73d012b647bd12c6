import sys

import pytest
from django.conf import settings
from django.db import connections
from django.test import override_settings

from offload import checks
from offload.checks import MIDDLEWARE, check_offload

FRONTS = ["accel", "njs", "poll", "uwsgi", "asgi"]


@pytest.fixture(autouse=True)
def no_models(monkeypatch):
    """Take the tests' own awaited models away: a queue for them is not asked for here."""
    monkeypatch.setattr(checks, "awaited_models", lambda: iter(()))


def ids():
    messages = check_offload()
    assert all(message.hint for message in messages)
    return [message.id for message in messages]


@pytest.mark.parametrize("front", [*FRONTS, "inline", "async"])
def test_right_settings_are_silent(offload_settings, front):
    offload_settings(BACKEND=front)
    assert ids() == []


def test_where_no_hub_asks_it_needs_no_address(offload_settings):
    offload_settings(BACKEND="asgi", RESOLVE_URL="")
    assert ids() == []


@pytest.mark.parametrize(
    ("values", "also", "expected"),
    [
        pytest.param({"BACKEND": "pigeon"}, {}, "offload.E001", id="unknown front"),
        pytest.param({"DEADLIEN": 3}, {}, "offload.E001", id="misspelt setting"),
        pytest.param({"MAX_HOLDS": "many"}, {}, "offload.E001", id="wrong type"),
        pytest.param({"MAX_HOLDS": True}, {}, "offload.E001", id="a bool is no number"),
        pytest.param({"DEADLINE": 0}, {}, "offload.E001", id="no time at all"),
        pytest.param({"SECRET": ""}, {}, "offload.E002", id="no secret"),
        pytest.param({"SECRET": None}, {}, "offload.E002", id="secret None"),
        pytest.param({"SECRET": "short"}, {}, "offload.E002", id="short secret"),
        pytest.param({"SECRET_FALLBACKS": ["short"]}, {}, "offload.E002", id="short fallback"),
        pytest.param({"SECRET_FALLBACKS": "s" * 40}, {}, "offload.E001", id="fallbacks no list"),
        pytest.param({"SECRET_FALLBACKS": [1]}, {}, "offload.E001", id="a number is no secret"),
        pytest.param({}, {"MIDDLEWARE": []}, "offload.E003", id="middleware missing"),
        pytest.param(
            {},
            {"MIDDLEWARE": ["django.middleware.common.CommonMiddleware", MIDDLEWARE]},
            "offload.E003",
            id="middleware not outermost",
        ),
        pytest.param({"STORE": "pigeon"}, {}, "offload.E011", id="unknown store"),
        pytest.param({"REDIS_URL": "redis:6379"}, {}, "offload.E011", id="no scheme"),
        pytest.param({"REDIS_URL": "redis://:se/cret@a"}, {}, "offload.E011", id="no address"),
        pytest.param({"REDIS_URL": "redis://:12/se@a/0"}, {}, "offload.E011", id="a / in it"),
        pytest.param({"STORE": "postgresql"}, {}, "offload.E011", id="no table"),
        pytest.param(
            {"STORE": "postgresql", "DATABASE": "none"},
            {"INSTALLED_APPS": ["offload", "offload.postgresql"]},
            "offload.E011",
            id="no such database",
        ),
        pytest.param({"RESOLVE": ""}, {}, "offload.E004", id="no resolve"),
        pytest.param({"RESOLVE": "no.such.thing"}, {}, "offload.E004", id="resolve not there"),
        pytest.param({"RESOLVE": "offload.tests.outcomes.known"}, {}, "offload.E004", id="no call"),
        pytest.param({"RESOLVE_URL": ""}, {}, "offload.W005", id="no resolve URL"),
        pytest.param({"RESOLVE_URL": "http://a"}, {}, "offload.W005", id="no path in it"),
    ],
)
def test_what_is_wrong_is_named(offload_settings, values, also, expected):
    offload_settings(also, **({"BACKEND": "accel"} | values))
    assert ids() == [expected]


@pytest.mark.parametrize("value", [None, ["asgi"]])
def test_settings_that_are_no_dictionary_are_named(value):
    with override_settings(OFFLOAD=value):
        assert ids() == ["offload.E001"]


@pytest.mark.parametrize("front", FRONTS)
def test_a_misspelt_front_is_told_the_names(offload_settings, front):
    offload_settings(BACKEND="pigeon")
    assert f"'{front}'" in str(check_offload()[0].hint)


@pytest.mark.parametrize("front", ["inline", "async"])
def test_where_the_worker_waits_the_middleware_is_needed_too(offload_settings, front):
    offload_settings(
        {"MIDDLEWARE": ["django.middleware.common.CommonMiddleware", MIDDLEWARE]}, BACKEND=front
    )
    assert ids() == []
    offload_settings({"MIDDLEWARE": []}, BACKEND=front)
    assert ids() == ["offload.W012"]
    offload_settings(BACKEND=front, RESOLVE="no.such.thing")
    assert ids() == ["offload.E004"]


def test_kept_connections_under_asgi(offload_settings, monkeypatch):
    monkeypatch.setitem(settings.DATABASES, "other", {"CONN_MAX_AGE": 60})
    offload_settings(BACKEND="asgi")
    assert ids() == ["offload.W008"]
    offload_settings(BACKEND="accel")
    assert ids() == []


@pytest.fixture
def in_postgresql(offload_settings, monkeypatch):
    monkeypatch.setattr(connections["default"], "vendor", "postgresql")
    installed = {"INSTALLED_APPS": ["offload", "offload.postgresql"]}
    offload_settings(installed, BACKEND="asgi", STORE="postgresql")


@pytest.mark.usefixtures("in_postgresql")
def test_an_engine_that_builds_on_django_s_is_postgresql():
    """PostGIS' path doesn't say so."""
    pytest.importorskip("psycopg")
    assert ids() == []


class NoTables:
    def allow_migrate(self, database, app_label, **hints):
        return False


@pytest.mark.usefixtures("in_postgresql")
def test_a_router_that_lets_the_store_have_no_table_is_named():
    """`migrate` says nothing of it: it notes the migration as applied."""
    with override_settings(DATABASE_ROUTERS=[f"{__name__}.NoTables"]):
        assert ids() == ["offload.E011"]


@pytest.mark.usefixtures("in_postgresql")
def test_psycopg2_can_t_wait(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert ids() == ["offload.E011"]
