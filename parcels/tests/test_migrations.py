"""Migrations run while the old code serves: nothing may hold a big table, or take from it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader

from deploy.stores import PostgresServer
from parcels.tests.test_partitions import Database

# Everything before the first release made empty tables. Raise it with a release, never to get by.
LAST_OF_FIRST_RELEASE = 3
# Tables that grow with the shops' work: a lock on them stops all.
BIG = {
    "parcel",
    "announcement",
    "attempt",
    "document",
    "hold",
    "idempotencykey",
    "trackingevent",
    "webhookevent",
    "webhookdelivery",
}
ADVICE = {
    "AddIndex": "use AddIndexConcurrently, with atomic = False",
    "RemoveIndex": "use RemoveIndexConcurrently, with atomic = False",
    "AddConstraint": "use AddConstraintNotValid, and ValidateConstraint in a later migration",
    "AlterField": "add a field, fill it in steps, remove the old one in a later release",
    "RemoveField": "the old code still reads it: remove it a release after its last use",
    "RenameField": "the old code still reads the old name: add, copy, remove a release later",
    "RenameModel": "the old code still reads the old table",
    "DeleteModel": "remove it a release after its last use",
    "RunSQL": "write it so that it takes no lock, and say here why",
    "RunPython": "fill in steps from a command; a migration holds its locks to its end",
}


def complaints(migration: migrations.Migration) -> Iterator[str]:
    """Yield what would stop or break the old code while it serves."""
    for operation in migration.operations:
        name = type(operation).__name__
        table = str(getattr(operation, "model_name", getattr(operation, "name", ""))).lower()
        if name in ADVICE and (table in BIG or name.startswith("Run")):
            yield f"{migration.name}: {name} on {table}: {ADVICE[name]}"
        if name == "AddField" and table in BIG and not _is_cheap(operation.field):  # type: ignore[attr-defined] # AddField has one
            yield f"{migration.name}: AddField on {table}: null, or a db_default"


def _is_cheap(field: models.Field[Any, Any]) -> bool:
    """Say whether old code may insert without it, and the database need not write each row."""
    return field.null or field.db_default is not models.NOT_PROVIDED or field.many_to_many is True


def ours() -> list[migrations.Migration]:
    loaded = MigrationLoader(None).disk_migrations
    return [loaded[key] for key in sorted(loaded) if key[0] == "parcels"]


def test_later_migrations_leave_the_big_tables_usable() -> None:
    later = [item for item in ours() if int(item.name[:4]) > LAST_OF_FIRST_RELEASE]
    assert [text for item in later for text in complaints(item)] == []


def test_the_big_tables_exist() -> None:
    assert {model._meta.model_name for model in apps.get_app_config("parcels").get_models()} >= BIG


@pytest.mark.parametrize(
    ("operation", "advice"),
    [
        (migrations.AddIndex("parcel", models.Index(fields=["name"], name="x")), "Concurrently"),
        (migrations.RemoveField("announcement", "error"), "a release after"),
        (migrations.RunPython(migrations.RunPython.noop), "in steps"),
        (migrations.AddField("hold", "x", models.IntegerField(default=0)), "db_default"),
        (migrations.AddField("hold", "x", models.IntegerField(null=True)), ""),
        (migrations.AddField("brand", "x", models.IntegerField(default=0)), ""),
    ],
)
def test_what_would_block_is_named(operation: Any, advice: str) -> None:
    """The control of the test above, which has nothing to find today."""
    changed = type("Migration", (migrations.Migration,), {"operations": [operation]})
    found = list(complaints(changed("0099_some", "parcels")))
    assert (advice in found[0]) if advice else not found


@pytest.mark.deployment
@pytest.mark.parametrize(("before", "migration"), [("0017", "0018"), ("0018", "0019")])
def test_a_way_back_that_was_interrupted_can_be_gone_again(
    postgresql: PostgresServer, before: str, migration: str
) -> None:
    indexes = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexname"
    database = Database(postgresql.create_database(f"back_{migration}"))
    assert database.migrate("parcels", before).returncode == 0
    former = database.rows(indexes)
    assert database.migrate("parcels", migration).returncode == 0
    with psycopg.connect(database.url) as reader:  # the last of those that are made again
        reader.execute("LOCK TABLE parcels_announcement IN ROW EXCLUSIVE MODE")
        done = database.migrate("parcels", before, PGOPTIONS="-c lock_timeout=300ms")
    assert "lock timeout" in done.stderr
    done = database.migrate("parcels", before)
    assert done.returncode == 0, done.stderr
    assert database.rows(indexes) == former


@pytest.mark.deployment
@pytest.mark.parametrize(
    ("before", "migration", "busy", "lock"),
    [
        ("0003", "0004", "webhookevent", "ROW EXCLUSIVE"),
        ("0006", "0007", "announcement", "ROW EXCLUSIVE"),
        ("0008", "0009", "webhookdelivery", "ROW EXCLUSIVE"),
        # For readers only the removal of an index waits.
        ("0008", "0009", "webhookdelivery", "ACCESS SHARE"),
        ("0011", "0012", "document", "ROW EXCLUSIVE"),
        ("0018", "0019", "hold_announcements", "ACCESS SHARE"),
    ],
)
def test_one_that_waited_too_long_can_be_run_again(
    postgresql: PostgresServer, before: str, migration: str, busy: str, lock: str
) -> None:
    """None of these is one transaction: an index that was given up stays, and is invalid."""
    database = Database(postgresql.create_database(f"again_{migration}_{lock[:3]}".lower()))
    assert database.migrate("parcels", before).returncode == 0
    invalid = "SELECT count(*) FROM pg_index WHERE NOT indisvalid"
    with psycopg.connect(database.url) as writer:
        writer.execute(f"LOCK TABLE parcels_{busy} IN {lock} MODE")
        done = database.migrate("parcels", migration, PGOPTIONS="-c lock_timeout=300ms")
    assert "lock timeout" in done.stderr
    assert database.value(invalid) == 1
    done = database.migrate("parcels", migration)
    assert done.returncode == 0, done.stderr
    assert database.value(invalid) == 0


@pytest.mark.deployment
def test_one_transaction_locks_its_tables_in_the_old_codes_order(
    postgresql: PostgresServer,
) -> None:
    """Else PostgreSQL ends one of the two: the code that records a label, as it waits last."""
    database = Database(postgresql.create_database("order_0011"))
    assert database.migrate("parcels", "0010").returncode == 0
    waits = (
        "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database"
        " WHERE datname = current_database() AND NOT granted"
    )
    with ThreadPoolExecutor(1) as pool, psycopg.connect(database.url) as recording:
        recording.execute("SELECT 1 FROM parcels_webhookendpoint")
        done = pool.submit(database.migrate, "parcels", "0011")
        while not database.value(waits) and not done.done():
            time.sleep(0.05)
        # As the commit does, for the event's reference to its account.
        recording.execute("LOCK TABLE parcels_account IN ROW SHARE MODE")
    assert done.result().returncode == 0
