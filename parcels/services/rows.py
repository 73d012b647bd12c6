"""Change rows in one statement, each with values of its own, and learn which of them were changed.

The statement's text is the same however many rows there are: it is prepared once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connection
from django.db.models import Model

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
) -> set[int]:
    """Update the rows named by `id` where the condition holds; return the ids of those changed.

    In the SQL `given.<name>` is a row's value and `own.<name>` the table's column; what is the same
    for all rows stands in the two lists of parameters.
    """
    given = list(rows)
    if not given:
        return set()
    columns = {name: [row[name] for row in given] for name in given[0]}
    table, (source, values) = model._meta.db_table, _source(columns)
    # UPDATE comes first, not WITH: by it SQLite's queue of writers knows a writer.
    sql = (
        f"UPDATE {table} AS own SET {sets} FROM {source}"  # noqa: S608 # no input in it
        f" WHERE own.id = given.id_ AND {condition} RETURNING id"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [*set_values, *values, *condition_values])
        return {row[0] for row in cursor.fetchall()}


def _source(columns: dict[str, list[Any]]) -> tuple[str, list[Any]]:
    """Return what follows FROM: a table `given`, whose `id` is `id_` beside the own one."""
    names = [f"{name}_" if name == "id" else name for name in columns]
    if connection.vendor == "postgresql":
        arrays = ", ".join(f"%s::{_type_of(values)}[]" for values in columns.values())
        return f"unnest({arrays}) AS given ({', '.join(names)})", list(columns.values())
    places = [f"json_extract(value, '$[{place}]') AS {name}" for place, name in enumerate(names)]
    rows = list(zip(*columns.values(), strict=True))
    return f"(SELECT {', '.join(places)} FROM json_each(%s)) AS given", [json.dumps(rows)]  # noqa: S608 # no input in it


def _type_of(values: Iterable[Any]) -> str:
    return next((_TYPES[type(value)] for value in values if value is not None), "bigint")
