"""The store's table, where the database is PostgreSQL."""

from typing import Any, ClassVar

from django.db import migrations

CREATE = """
    CREATE UNLOGGED TABLE offload_store (
        key text PRIMARY KEY,
        value bytea NOT NULL,
        expires_at timestamptz NOT NULL
    );
    CREATE INDEX offload_store_expires_at ON offload_store (expires_at);
"""


def create(apps: Any, editor: Any) -> None:
    if editor.connection.vendor == "postgresql":
        editor.execute(CREATE)


def drop(apps: Any, editor: Any) -> None:
    if editor.connection.vendor == "postgresql":
        editor.execute("DROP TABLE offload_store")


class Migration(migrations.Migration):
    initial = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar[list[Any]] = [migrations.RunPython(create, drop)]
