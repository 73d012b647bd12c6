"""Attempts and tracking events by month, on PostgreSQL; the old code serves meanwhile.

The filled table becomes the first partition as it is: no row is copied. What takes long (validating
a constraint, building indexes) stops nobody; the switch itself changes catalogues only, in one
transaction. What was interrupted is begun again: each step clears what it left.
"""

# ruff: noqa: S608 # names in SQL are our own

from typing import Any

import django.db.models.deletion
from django.db import migrations, models, transaction
from django.db.migrations.operations.base import Operation

# What a month's rows are told by; the partition's key is part of each unique index.
KEYS = {"parcels_attempt": "date_created", "parcels_trackingevent": "at"}
UNIQUE = {"parcels_trackingevent": "seq"}
# The table that each refers to. The old code changes a row there first: locked in another order,
# the two would wait for each other until PostgreSQL ended one.
REFERS = {"parcels_attempt": "parcels_announcement", "parcels_trackingevent": "parcels_parcel"}


class PartitionByMonth(Operation):
    reversible = False
    reduces_to_sql = False

    def __init__(self, table: str) -> None:
        self.table, self.key, self.unique = table, KEYS[table], UNIQUE.get(table)

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Change nothing: models don't know of it."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        if schema_editor.connection.vendor != "postgresql":
            return
        with schema_editor.connection.cursor() as cursor:
            # Left by a run that gave up; on a switched table it would refuse later months' rows.
            cursor.execute(f"ALTER TABLE {self.table} DROP CONSTRAINT IF EXISTS {self.table}_until")
            if self._is_switched(cursor):
                return
            month = self._end(cursor)
            self._prepare(cursor, month)
            with transaction.atomic(schema_editor.connection.alias):
                self._switch(cursor, month)

    def _is_switched(self, cursor: Any) -> bool:
        cursor.execute(f"SELECT relkind FROM pg_class WHERE oid = '{self.table}'::regclass")
        return bool(cursor.fetchone()[0] == "p")

    def _end(self, cursor: Any) -> str:
        """Return the month before which all is: after the next."""
        cursor.execute(
            "SELECT to_char(date_trunc('month', now() AT TIME ZONE 'UTC') + interval '2 months',"
            " 'YYYY-MM-DD')"
        )
        return str(cursor.fetchone()[0])

    def _prepare(self, cursor: Any, month: str) -> None:
        """Prove where the rows are, and build the new indexes, while the table is used."""
        table, key = self.table, self.key
        cursor.execute(
            f"ALTER TABLE {table} ADD CONSTRAINT {table}_until"
            f" CHECK ({key} < '{month} 00:00:00+00') NOT VALID"
        )
        # A wrong clock wrote them; `carriers.tracking_feed` now dates such events itself. Left alone
        # they would keep each month until their own in the first partition.
        cursor.execute(f"UPDATE {table} SET {key} = now() WHERE {key} >= '{month} 00:00:00+00'")
        cursor.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {table}_until")
        for column in filter(None, ("id", self.unique)):
            cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {table}_{column}_first")
            cursor.execute(
                f"CREATE UNIQUE INDEX CONCURRENTLY {table}_{column}_first ON {table} ({column}, {key})"
            )

    def _switch(self, cursor: Any, month: str) -> None:
        table, key = self.table, self.key
        first = f"{table}_before_{month[:7].replace('-', '_')}"
        cursor.execute(f"LOCK TABLE {REFERS[table]} IN SHARE ROW EXCLUSIVE MODE")
        cursor.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        # A key across partitions can't be referred to: the models' references stay without it.
        for name, other in self._all(
            cursor,
            "SELECT conname, conrelid::regclass FROM pg_constraint"
            f" WHERE contype = 'f' AND confrelid = '{table}'::regclass",
        ):
            cursor.execute(f"ALTER TABLE {other} DROP CONSTRAINT {name}")
        references = self._all(
            cursor,
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"
            f" WHERE contype = 'f' AND conrelid = '{table}'::regclass",
        )
        (((number,),)) = self._all(
            cursor, f"SELECT nextval(pg_get_serial_sequence('{table}', 'id'))"
        )
        cursor.execute(f"ALTER TABLE {table} ALTER id DROP IDENTITY")
        cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey")
        if self.unique:
            cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {table}_{self.unique}_key")
        indexes = self._all(
            cursor,
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()"
            f" AND tablename = '{table}' AND right(indexname, 6) <> '_first'",
        )
        grants = self._all(
            cursor,
            "SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END, privilege_type"
            f" FROM pg_class, aclexplode(relacl) WHERE oid = '{table}'::regclass AND grantee <> relowner",
        )
        cursor.execute(f"ALTER TABLE {table} RENAME TO {first}")
        cursor.execute(
            f"ALTER TABLE {first} ADD CONSTRAINT {first}_pkey PRIMARY KEY USING INDEX {table}_id_first"
        )
        for name, _ in indexes:
            cursor.execute(f"ALTER INDEX {name} RENAME TO {name[:57]}_first")
        cursor.execute(
            f"CREATE TABLE {table} (LIKE {first} INCLUDING DEFAULTS) PARTITION BY RANGE ({key})"
        )
        # No identity: before PostgreSQL 17 partitions have none.
        cursor.execute(f"CREATE SEQUENCE {table}_id_seq START {number} OWNED BY {table}.id")
        cursor.execute(f"ALTER TABLE {table} ALTER id SET DEFAULT nextval('{table}_id_seq')")
        cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT {table}_pkey PRIMARY KEY (id, {key})")
        if self.unique:
            cursor.execute(
                f"CREATE UNIQUE INDEX {table}_{self.unique}_key ON {table} ({self.unique}, {key})"
            )
        for _, definition in indexes:
            cursor.execute(definition)
        for name, definition in references:
            cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}")
        cursor.execute(
            f"ALTER TABLE {table} ATTACH PARTITION {first}"
            f" FOR VALUES FROM (MINVALUE) TO ('{month} 00:00:00+00')"
        )
        cursor.execute(f"ALTER TABLE {first} DROP CONSTRAINT {table}_until")
        cursor.execute(f"CREATE TABLE {table}_default PARTITION OF {table} DEFAULT")
        for role, privilege in grants:  # the sweeper asks the default by its name
            cursor.execute(f"GRANT {privilege} ON {table}, {table}_default TO {role}")
            cursor.execute(f"GRANT USAGE ON SEQUENCE {table}_id_seq TO {role}")

    def _all(self, cursor: Any, question: str) -> list[Any]:
        cursor.execute(question)
        return list(cursor.fetchall())


def without_key(model: str, field: str, **options: Any) -> Operation:
    """Let models say that the database holds no reference; SQLite keeps the one that it has."""
    reference = models.ForeignKey(
        blank=True, db_constraint=False, null=True, to="parcels.attempt", **options
    )
    return migrations.SeparateDatabaseAndState(
        state_operations=[migrations.AlterField(model, field, reference)]
    )


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("parcels", "0014_document_files")]

    operations = [
        PartitionByMonth("parcels_attempt"),
        PartitionByMonth("parcels_trackingevent"),
        without_key("document", "attempt", on_delete=django.db.models.deletion.CASCADE),
        without_key(
            "sparelabel",
            "attempt",
            on_delete=django.db.models.deletion.SET_NULL,
            related_name="+",
        ),
    ]
