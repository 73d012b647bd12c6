"""The rows, read past the application: by SQLite and by PostgreSQL, with Django's own tables."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from deploy.plan import ROOT
from deploy.rows import OPEN, PostgreSQL, Rows, database_of
from deploy.tests.waiting import until
from parcels.models.announcement import OPEN as THEIRS

pytestmark = pytest.mark.integration

PARALLEL = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'"
FILL = """
import django; django.setup()
from datetime import timedelta
from django.utils import timezone
from parcels.models import Hold
from parcels.tests.factories import AnnouncementFactory
hour = timedelta(hours=1)
now = timezone.now()
one = AnnouncementFactory(carrier="colibri", state="pending")
type(one).objects.filter(pk=one.pk).update(date_created=now - hour)
AnnouncementFactory(carrier="colibri", state="announcing")
AnnouncementFactory(carrier="postnl", state="announced")
make = lambda number, **more: Hold.objects.create(
    id=str(number), account=one.account, question={}, **more)
make(1, deadline_at=now + hour)
make(2, deadline_at=now - hour)
make(3, deadline_at=now + hour, released_at=now)
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/db.sqlite3"
    return request.getfixturevalue("postgresql").create_database("live")


def run(url, tmp_path, *arguments):
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "DEBUG": "1",
        "RUN_DIR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "shipping.settings",
    }
    subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, check=True)


def test_open_states_are_the_models():
    assert set(OPEN) == {str(state) for state in THEIRS}


def test_what_waits_for_a_person_is_not_to_come():
    """Or the live page says "Recovering" until somebody decides."""
    rows = Rows({"lantern": {"needs_review": 2, "pending": 1}})
    assert (rows.open, rows.to_come) == (3, 1)


def test_rows(url, tmp_path):
    database = database_of(url)
    assert database.read() is None  # no tables yet
    run(url, tmp_path, "manage.py", "migrate", "--verbosity", "0")
    found = database.read() or pytest.fail("not read")
    assert (found.queues, found.holds, found.oldest) == ({}, 0, 0)
    run(url, tmp_path, "-c", FILL)
    found = database.read() or pytest.fail("not read")
    assert found.queues == {"colibri": {"pending": 1, "announcing": 1}}
    assert found.holds == 1
    assert 3600 <= found.oldest < 4000
    assert (found.connections is None) == url.startswith("sqlite")


def test_who_looks_is_no_connection(postgresql, tmp_path):
    url = postgresql.create_database("looks")
    run(url, tmp_path, "manage.py", "migrate", "--verbosity", "0")
    first, second = PostgreSQL(url), PostgreSQL(url)
    with psycopg.connect(url):
        found = [one.read() for one in (first, second, first)]
    assert [rows and rows.connections for rows in found] == [1, 1, 1]
    first.close()
    second.close()


def test_what_postgresql_runs_for_itself_is_no_connection(postgresql, tmp_path):
    """A parallel worker, since autovacuum comes when it likes."""
    url = postgresql.create_database("parallel")
    run(url, tmp_path, "manage.py", "migrate", "--verbosity", "0")
    reader = PostgreSQL(url)
    with psycopg.connect(url, autocommit=True) as busy, ThreadPoolExecutor() as pool:
        newer = busy.info.server_version >= 160_000
        busy.execute(f"SET {'debug_parallel_query' if newer else 'force_parallel_mode'} = on")
        work = pool.submit(busy.execute, "SELECT pg_sleep(60)")
        with psycopg.connect(url, autocommit=True) as other:
            until(lambda: other.execute(PARALLEL).fetchone() == (1,), "a parallel worker")
            found = reader.read()
        busy.cancel()
        assert isinstance(work.exception(), psycopg.errors.QueryCanceled)
    reader.close()
    assert found
    assert found.connections == 2


def test_a_database_that_is_away_is_no_error(tmp_path):
    assert database_of(f"sqlite:///{tmp_path}/none").read() is None
    assert database_of("postgresql://postgres@127.0.0.1:1/none").read() is None
    assert Rows().holds == 0
