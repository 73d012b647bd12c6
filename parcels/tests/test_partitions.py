"""Attempts and tracking events by month: a filled table is switched while it is used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.conf import settings as project
from django.utils import timezone

from deploy.stores import PostgresServer
from parcels.models import Attempt, Document, State, TrackingEvent
from parcels.services import partitions
from parcels.tests.factories import PDF, AnnouncementFactory

TABLES = ("parcels_attempt", "parcels_trackingevent")
FILLED = 2000
FILL = f"""
from django.utils import timezone
from parcels.models import *
from parcels.tests.factories import AnnouncementFactory
row = AnnouncementFactory.create()
tries = Attempt.objects.bulk_create(
    Attempt(announcement=row, fence=n, outcome="unknown") for n in range({FILLED})
)
TrackingEvent.objects.bulk_create(
    TrackingEvent(parcel=row.parcel, carrier="postnl", tracking_number="3S", status=3,
                  at=timezone.now(), seq=n) for n in range({FILLED})
)
Document.objects.create(parcel=row.parcel, format="pdf", content=b"%PDF", attempt=tries[-1])
# 0014 has no default for a spare's age yet.
row.spares.create(attempt=tries[-1], carrier_id="c", tracking_number="3S", source="answer",
                  date_created=timezone.now())
"""


class Database:
    """A PostgreSQL database, asked directly and by programs of ours."""

    def __init__(self, url: str) -> None:
        self.url = url

    def copy(self, name: str) -> Database:
        self.rows(f"CREATE DATABASE {name} TEMPLATE {self.url.rpartition('/')[2]}")
        return Database(f"{self.url.rpartition('/')[0]}/{name}")

    def run(self, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"DATABASE_URL": self.url, "DEBUG": "1"} | env
        return subprocess.run(
            [sys.executable, *command],
            cwd=project.BASE_DIR,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def migrate(self, *target: str, **env: str) -> subprocess.CompletedProcess[str]:
        return self.run("manage.py", "migrate", "--verbosity=0", *target, **env)

    def python(self, code: str, **env: str) -> str:
        done = self.run("-c", f"import django; django.setup(); {code}", **env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def tend(self, moment: datetime, **env: str) -> Any:
        """Tend the partitions as of a moment; return how many rows had no month, by table."""
        return json.loads(self.python(
            "import json; from datetime import datetime; from parcels.services import partitions;"
            "from parcels import metrics; found = {};"
            "metrics.HISTORY_UNPLACED.labels = lambda table:"
            " type('', (), {'set': lambda self, n: found.update({table: n})})();"
            f"partitions.tend(datetime.fromisoformat({moment.isoformat()!r}));"
            "print(json.dumps(found))",
            **env,
        ))  # fmt: skip

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def value(self, sql: str) -> Any:
        return self.rows(sql)[0][0]

    def months(self, table: str) -> set[str]:
        found = self.rows(
            "SELECT relname FROM pg_inherits JOIN pg_class ON oid = inhrelid"
            f" WHERE inhparent = '{table}'::regclass"
        )
        return {name.removeprefix(f"{table}_") for (name,) in found}


@pytest.fixture(scope="module")
def before(postgresql: PostgresServer) -> Database:
    """A database of the release before, with rows; to be copied."""
    database = Database(postgresql.create_database("history_before"))
    done = database.migrate("parcels", "0014")
    assert done.returncode == 0, done.stderr
    database.python("exec('''" + FILL + "''')", DJANGO_SETTINGS_MODULE="shipping.settings")
    return database


@pytest.fixture(scope="module")
def after(before: Database) -> Database:
    """The same, migrated; to be copied."""
    database = before.copy("history_after")
    done = database.migrate()
    assert done.returncode == 0, done.stderr
    return database


@pytest.fixture
def filled(before: Database, request: pytest.FixtureRequest) -> Database:
    return before.copy(re.sub(r"\W", "_", request.node.name)[:60])


@pytest.fixture
def switched(after: Database, request: pytest.FixtureRequest) -> Database:
    return after.copy(request.node.name[:60])


INSERT = (
    "INSERT INTO parcels_attempt (announcement_id, kind, fence, duration, outcome, detail,"
    " carrier_id, tracking_number, recorded, date_created)"
    " SELECT id, 'announce', 1, 0, 'unknown', '', '', '', true, {moment} FROM parcels_announcement"
    " RETURNING id"
)


class Serving:
    """The old code: a connection of its own that records attempts, prepared, one after another."""

    def __init__(self, database: Database) -> None:
        self.ids: list[int] = []
        self.longest = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(database.url,))

    def __enter__(self) -> Serving:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _serve(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection:
            while not self._stop.is_set():
                begun = time.monotonic()
                with connection.transaction():
                    connection.execute("UPDATE parcels_announcement SET fence = fence + 1")
                    rows = connection.execute(INSERT.format(moment="now()")).fetchall()
                self.ids += [row[0] for row in rows]
                self.longest = max(self.longest, time.monotonic() - begun)


@pytest.mark.deployment
def test_a_filled_table_is_switched_while_it_is_used(filled: Database) -> None:
    with Serving(filled) as serving:
        done = filled.migrate()
    assert done.returncode == 0, done.stderr
    assert len(serving.ids) > 10
    assert len(set(serving.ids)) == len(serving.ids)
    assert serving.longest < 1.0
    assert filled.value("SELECT count(*) FROM parcels_attempt") == FILLED + len(serving.ids)
    assert filled.value("SELECT count(*) FROM parcels_trackingevent") == FILLED
    for table in TABLES:
        assert _kind(filled, table) == "p"
        assert filled.value(f"SELECT count(*) FROM {table}_default") == 0
    (evidence,) = filled.rows("SELECT a.fence FROM parcels_document d JOIN parcels_attempt a"
                              " ON a.id = d.attempt_id")  # fmt: skip
    assert evidence == (FILLED - 1,)
    plan = filled.rows("EXPLAIN SELECT * FROM parcels_attempt WHERE announcement_id = 77")
    assert not any("Seq Scan on parcels_attempt_before" in line for (line,) in plan)
    assert "No changes" in filled.run("manage.py", "makemigrations", "--check", "--dry-run").stdout


@pytest.mark.deployment
@pytest.mark.parametrize("table", TABLES)
def test_a_switch_that_was_interrupted_is_begun_again(filled: Database, table: str) -> None:
    """A long transaction keeps it waiting: it gives up, and the table is as usable as before."""
    with psycopg.connect(filled.url) as busy:
        busy.execute(f"SELECT count(*) FROM {table}")
        done = filled.migrate(PGOPTIONS="-c lock_timeout=300ms")
        assert done.returncode != 0
        assert "lock timeout" in done.stderr
        filled.rows(INSERT.format(moment="now()"))
    switched = {name for name in TABLES if _kind(filled, name) == "p"}
    assert switched == set(TABLES[: TABLES.index(table)])
    for name in switched:  # as the migration once left it
        until = "date_created < now() + interval '1 month'"
        filled.rows(f"ALTER TABLE {name} ADD CONSTRAINT {name}_until CHECK ({until})")
    done = filled.migrate(PGOPTIONS="-c lock_timeout=5s")
    assert done.returncode == 0, done.stderr
    filled.rows(INSERT.format(moment="now() + interval '1 year'"))
    assert filled.value("SELECT count(*) FROM parcels_attempt") == FILLED + 2
    assert {_kind(filled, name) for name in TABLES} == {"p"}


@pytest.mark.deployment
def test_an_event_of_a_wrong_clock_keeps_no_month_from_being_made(filled: Database) -> None:
    """Before they were dated when they were read, as `carriers.tracking_feed` does."""
    filled.rows("UPDATE parcels_trackingevent SET at = '2062-03-01' WHERE seq = 1")
    assert filled.migrate().returncode == 0
    first = f"before_{partitions.months(datetime.now(UTC))[2]:%Y_%m}"
    assert filled.months("parcels_trackingevent") == {first, "default"}
    assert filled.value("SELECT at <= now() FROM parcels_trackingevent WHERE seq = 1")


def _kind(database: Database, table: str) -> Any:
    return database.value(f"SELECT relkind FROM pg_class WHERE relname = '{table}'")


@pytest.mark.deployment
def test_a_role_that_may_write_still_may(filled: Database) -> None:
    """Who migrates owns the tables; who serves need not."""
    filled.rows("CREATE ROLE serving")
    try:
        filled.rows("GRANT SELECT ON parcels_announcement TO serving")
        filled.rows("GRANT SELECT, INSERT ON parcels_attempt TO serving")
        assert filled.migrate().returncode == 0
        with psycopg.connect(filled.url, autocommit=True) as connection:
            connection.execute("SET ROLE serving")
            assert connection.execute(INSERT.format(moment="now()")).rowcount == 1
            # Its sweeper counts what has no month.
            connection.execute("SELECT count(*) FROM parcels_attempt_default")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("DELETE FROM parcels_attempt")
    finally:
        filled.rows("DROP OWNED BY serving")
        filled.rows("DROP ROLE serving")


@pytest.mark.deployment
def test_months_are_made_ahead_and_dropped_when_they_are_old(switched: Database) -> None:
    now = datetime.now(UTC)
    ends = partitions.months(now)
    assert switched.tend(now) == dict.fromkeys(TABLES, 0)
    first = f"before_{ends[2]:%Y_%m}"
    for table in TABLES:
        assert switched.months(table) == {first, "default", *(f"{each:%Y_%m}" for each in ends[2:])}
    switched.rows(INSERT.format(moment="now() + interval '2 month'"))
    later = ends[2] + timedelta(days=50)
    switched.tend(later, HISTORY_KEEP=str(51 * 86400))
    assert first in switched.months("parcels_attempt")
    switched.tend(later, HISTORY_KEEP=str(49 * 86400))
    assert first not in switched.months("parcels_attempt")
    assert switched.value("SELECT count(*) FROM parcels_attempt") == 1
    # What referred to it stays, and reads as without.
    switched.python(
        "from parcels.models import *; Document.objects.get().delete();"
        "assert SpareLabel.objects.select_related('announcement').get().attempt_id",
        DJANGO_SETTINGS_MODULE="shipping.settings",
    )


@pytest.mark.deployment
def test_a_row_without_a_month_is_caught_counted_and_placed(switched: Database) -> None:
    now = datetime.now(UTC)
    moment = partitions.months(now)[3] + timedelta(days=3)
    switched.rows(INSERT.format(moment=f"'{moment.isoformat()}'"))
    switched.rows(INSERT.format(moment="now() + interval '3 year'"))
    assert switched.value("SELECT count(*) FROM parcels_attempt_default") == 2
    assert switched.tend(now)["parcels_attempt"] == 1
    month = f"parcels_attempt_{moment:%Y_%m}"
    assert switched.value(f"SELECT count(*) FROM {month}") == 1
    assert switched.value("SELECT count(*) FROM parcels_attempt") == FILLED + 2


@pytest.mark.deployment
def test_where_one_table_is_in_use_rows_are_counted_and_the_other_has_its_months(
    switched: Database,
) -> None:
    now = datetime.now(UTC)
    last = partitions.months(now)[-1]
    switched.rows(INSERT.format(moment=f"'{last.isoformat()}'"))
    with psycopg.connect(switched.url) as busy:
        busy.execute("LOCK TABLE parcels_attempt_default IN ROW EXCLUSIVE MODE")
        assert switched.tend(now) == {"parcels_attempt": 1, "parcels_trackingevent": 0}
    assert f"{last:%Y_%m}" in switched.months("parcels_trackingevent")


@pytest.mark.deployment
def test_months_in_which_no_sweeper_ran_are_made_afterwards(switched: Database) -> None:
    first = partitions.months(datetime.now(UTC))[2]
    switched.rows(INSERT.format(moment=f"'{(first + timedelta(days=3)).isoformat()}'"))
    assert switched.tend(first + timedelta(days=100))["parcels_attempt"] == 0
    assert switched.value(f"SELECT count(*) FROM parcels_attempt_{first:%Y_%m}") == 1


@pytest.mark.deployment
def test_a_month_whose_rows_take_too_long_to_move_keeps_nothing_else(switched: Database) -> None:
    first = partitions.months(datetime.now(UTC))[2]
    switched.rows(INSERT.format(moment=f"'{(first + timedelta(days=20)).isoformat()}'"))
    switched.rows(
        "CREATE FUNCTION many() RETURNS trigger LANGUAGE plpgsql"
        " AS 'BEGIN PERFORM pg_sleep(9); RETURN OLD; END';"
        "CREATE TRIGGER many BEFORE DELETE ON parcels_attempt_default"
        " FOR EACH ROW EXECUTE FUNCTION many()"
    )
    now = first + timedelta(days=60)
    switched.tend(now, HISTORY_KEEP=str(50 * 86400), DATABASE_STATEMENT_TIMEOUT="2")
    made = partitions.months(now, partitions.following(first))
    assert switched.months("parcels_attempt") == {"default", *(f"{each:%Y_%m}" for each in made)}


@pytest.mark.deployment
def test_the_same_event_twice_is_still_one_row(switched: Database) -> None:
    copied = (
        "INSERT INTO parcels_trackingevent (parcel_id, carrier, tracking_number, status, message,"
        " at, seq) SELECT parcel_id, carrier, tracking_number, status, message, at, seq"
        " FROM parcels_trackingevent LIMIT 1"
    )
    with pytest.raises(psycopg.errors.UniqueViolation):
        switched.rows(copied)


@pytest.mark.django_db
def test_where_there_are_no_partitions_the_oldest_rows_are_deleted(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if partitions.connection.vendor == "postgresql":
        pytest.skip("there they are dropped")
    settings.HISTORY_KEEP = 3600
    monkeypatch.setattr(partitions, "ROWS_AT_ONCE", 2)
    row = AnnouncementFactory.create()
    for number in range(4):
        Attempt.objects.create(announcement=row, fence=number, outcome="unknown")
        TrackingEvent.objects.create(
            parcel=row.parcel, carrier="postnl", status=3, at=timezone.now()
        )
    Attempt.objects.filter(fence__lt=3).update(date_created=timezone.now() - timedelta(hours=2))
    left = []
    for _ in range(3):
        deleted = partitions.tend()
        left.append((deleted, [each.fence for each in Attempt.objects.all()]))
    assert left == [(2, [2, 3]), (1, [3]), (0, [3])]
    assert TrackingEvent.objects.count() == 4


@pytest.mark.django_db
def test_where_there_are_no_partitions_evidence_outlives_its_attempt(settings: Any) -> None:
    """Once that is forgotten, its attempt follows."""
    if partitions.connection.vendor == "postgresql":
        pytest.skip("there they are dropped")
    settings.HISTORY_KEEP = 3600
    row = AnnouncementFactory.create(state=State.NEEDS_REVIEW)
    attempt = row.attempts.create(fence=1, outcome="announced", recorded=False)
    paper = Document.objects.create(parcel=row.parcel, format="pdf", content=PDF, attempt=attempt)
    row.attempts.update(date_created=timezone.now() - timedelta(hours=2))
    assert (partitions.tend(), list(Document.objects.all())) == (0, [paper])
    paper.delete()
    assert (partitions.tend(), row.attempts.count()) == (1, 0)


def test_months_go_on_over_the_end_of_a_year() -> None:
    found = [f"{each:%Y-%m}" for each in partitions.months(datetime(2026, 11, 30, tzinfo=UTC))]
    assert found == ["2026-11", "2026-12", "2027-01", "2027-02"]
