"""The database's clock: the only one that all processes share."""

import functools
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import DateTimeField, Func
from django.db.models.expressions import RawSQL
from django.db.models.sql.compiler import SQLCompiler

# Seconds between two looks at a row that has waited for as long.
SELDOM = 3600.0
# Django writes microseconds, SQLite's clock has milliseconds: "999" makes a row that was written
# in this millisecond count as past.
_SQLITE = "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now'{offset}) || '999'"
_POSTGRESQL = "clock_timestamp(){offset}"


@functools.cache  # a process has one database
def now_sql(offset: str = "") -> str:
    """Return SQL for the moment of execution, not of the transaction's begin.

    `offset` is SQL for the seconds to add: a column, or "%s" for a parameter.
    """
    if connection.vendor == "sqlite":
        return _SQLITE.format(offset=f", ({offset} || ' seconds')" if offset else "")
    return _POSTGRESQL.format(offset=f" + {offset} * interval '1 second'" if offset else "")


def age_sql(column: str) -> str:
    """Return SQL for the seconds since a moment; null where there is none."""
    if connection.vendor == "sqlite":
        return f"(julianday('now') - julianday({column})) * 86400"
    return f"extract(epoch FROM clock_timestamp() - {column})"


def waited_sql(since: str, least: float, most: float) -> str:
    """Return SQL for when to look again: after as long as it has been since a moment.

    Not before `least` seconds, and not after more than `most`.
    """
    lower, upper = ("max", "min") if connection.vendor == "sqlite" else ("greatest", "least")
    return now_sql(f"{upper}({most}, {lower}({least}, coalesce({age_sql(since)}, 0)))")


class Waited(RawSQL):
    """The same, after an hour at the latest: a row may kill whoever takes it up, each time."""

    def __init__(self, since: str, least: float) -> None:
        later = waited_sql(since, least, SELDOM * settings.TIME_SCALE)
        super().__init__(later, [], DateTimeField())


class DatabaseNow(Func):
    """The moment of execution by the database's clock, `seconds` later or (negative) earlier."""

    output_field = DateTimeField()

    def __init__(self, seconds: float = 0) -> None:
        super().__init__()
        self.seconds = float(seconds)

    def as_sql(  # type: ignore[override] # the signature of Func has extra keywords
        self, compiler: SQLCompiler, connection: Any, **_: Any
    ) -> tuple[str, list[float]]:
        return now_sql("%s"), [self.seconds]


class StatementNow(DatabaseNow):
    """The moment at which the statement began, or `seconds` after it, for what is due.

    PostgreSQL searches an index by it; by `clock_timestamp()`, which changes from row to row, it
    reads the index whole. SQLite has no such difference.
    """

    def as_postgresql(
        self, compiler: SQLCompiler, connection: Any, **_: Any
    ) -> tuple[str, list[float]]:
        return "(STATEMENT_TIMESTAMP() + %s * interval '1 second')", [self.seconds]
