"""Change rows in one statement, each with values of its own, and learn which of them were changed.

The statement's text is the same however many rows there are: it is prepared once. The rows are one
text of JSON: of arrays PostgreSQL would see how short they are, and plan each time. On PostgreSQL
statements can be sent together: a round trip less, and less for both sides to do.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.models import AutoField, Model

# PostgreSQL's serialization_failure and deadlock_detected: the transaction may be run again.
LOST_RACES = ("40001", "40P01")
# Always true: by an equality PostgreSQL expects one row in the text instead of a hundred, and takes
# the table's index.
_FEW = " AND coalesce(given.id_, given.id_) = given.id_"
# PostgreSQL's types, by the first value that isn't None.
_TYPES = {bool: "boolean", int: "bigint", float: "double precision", str: "text"}


def change_rows(
    model: type[Model],
    rows: Iterable[dict[str, Any]],
    sets: str,
    condition: str,
    *,
    set_values: Sequence[Any] = (),
    condition_values: Sequence[Any] = (),
    returning: str = "id",
) -> dict[int, Any]:
    """Update the rows named by `id` where the condition holds.

    Returns the ids of those changed, each with the value of `returning`.

    In the SQL `given.<name>` is a row's value and `own.<name>` the table's column; what is the same
    for all rows stands in the two lists of parameters.
    """
    given = sorted(rows, key=lambda row: row["id"])  # as others lock them
    if not given:
        return {}
    names = [f"{name}_" if name == "id" else name for name in given[0]]  # beside the table's own
    values = json.dumps([dict(zip(names, row.values(), strict=True)) for row in given])
    if connection.vendor == "postgresql":
        columns = zip(*(row.values() for row in given), strict=True)
        typed = ", ".join(
            f"{name} {next((_TYPES[type(one)] for one in column if one is not None), 'bigint')}"
            for name, column in zip(names, columns, strict=True)
        )
        source = f"json_to_recordset(%s::json) AS given ({typed})"
        condition += _FEW
    else:
        places = ", ".join(f"json_extract(value, '$.{name}') AS {name}" for name in names)
        source = f"(SELECT {places} FROM json_each(%s)) AS given"  # noqa: S608 # no input in it
    # UPDATE comes first, not WITH: by it SQLite's queue of writers knows a writer.
    sql = (
        f"UPDATE {model._meta.db_table} AS own SET {sets} FROM {source}"  # noqa: S608 # no input in it
        f" WHERE own.id = given.id_ AND {condition} RETURNING id, {returning}"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [*set_values, values, *condition_values])
        return dict(cursor.fetchall())


def lost_a_race(error: Exception) -> bool:
    """Tell whether a transaction that failed may be run again as it was."""
    return getattr(error.__cause__, "sqlstate", None) in LOST_RACES


@contextmanager
def preceded_by(waiting: dict[str, tuple[str, list[Any]]]) -> Iterator[None]:
    """On PostgreSQL, send what waits together with the next statement, and empty it.

    The next statement sees what each returns as a table of that name, but nothing of what they
    change in others.
    """

    def send(execute: Any, sql: str, params: Any, *given: Any) -> Any:
        if waiting:
            parts = ", ".join(f"{name} AS ({each})" for name, (each, _) in waiting.items())
            sql = f"WITH {parts} {sql}"
            params = [value for _, own in waiting.values() for value in own] + list(params or ())
            waiting.clear()
        return execute(sql, params, *given)

    with connection.execute_wrapper(send):
        yield


@contextmanager
def inserting(*groups: Sequence[Model]) -> Iterator[None]:
    """Insert rows, each group of one model; on PostgreSQL together with the next statement."""
    filled = [rows for rows in groups if rows]
    together = connection.vendor == "postgresql"
    waiting = {f"part_{place}": _insert(rows) for place, rows in enumerate(filled) if together}
    with preceded_by(waiting) if together else nullcontext():
        yield
    if waiting or not together:  # or there was no next statement
        for rows in filled:
            insert(rows)


def insert(rows: Sequence[Model], **computed: str) -> None:
    """Insert new rows of one model, and give them their keys; `computed` columns are SQL.

    As `bulk_create`, in which Django's compiler takes three times as long. All rows are in one
    statement: a request has at most `limits.PARCELS`.
    """
    if not rows:
        return
    sql, values = _insert(rows, **computed)
    with connection.cursor() as cursor:
        cursor.execute(f"{sql} RETURNING id", values)
        for row, (key,) in zip(rows, cursor.fetchall(), strict=True):
            row.pk = key
            row._state.adding, row._state.db = False, DEFAULT_DB_ALIAS


# What is null in all rows isn't named: a third of a parcel's and an announcement's columns. None of
# these has a default in the database.
def _insert(rows: Sequence[Model], **computed: str) -> tuple[str, list[Any]]:
    own = connections[DEFAULT_DB_ALIAS]  # `connection` would be looked up for each value
    table = rows[0]._meta
    given: dict[str, list[Any]] = {}
    for field in table.concrete_fields:
        if not isinstance(field, AutoField) and field.name not in computed:
            found = [field.get_db_prep_save(field.pre_save(row, add=True), own) for row in rows]
            if found.count(None) < len(rows):
                given[field.column or ""] = found
    row_of = f"({', '.join([*computed.values(), *['%s'] * len(given)])})"
    columns, places = ", ".join([*computed, *given]), ", ".join([row_of] * len(rows))
    return f"INSERT INTO {table.db_table} ({columns}) VALUES {places}", [  # noqa: S608 # no input in it
        value for row in zip(*given.values(), strict=True) for value in row
    ]
