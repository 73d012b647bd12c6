"""Django's side: in the project's own connection, and in its transaction."""

import random
from collections.abc import Iterable
from itertools import cycle
from typing import Any
from urllib.parse import quote, urlencode

from django.db import connections, transaction

from offload import conf
from offload.postgresql import ADD, DELETE, NOTIFY, PRUNE, READ

# With one of so many answers expired rows are deleted, five for each: a hold has up to three, its
# answer, late answer and ticket. No separate process is needed.
PRUNE_ONE_IN = 100


def write(
    values: Iterable[tuple[str, bytes, int]],
    wake_ups: Iterable[tuple[str, str]],
    deleted: Iterable[str],
) -> None:
    """Add (key, value, life), send (channel, payload) and delete keys, all at the commit."""
    alias = conf.current().database
    # A savepoint inside the caller's transaction: an error here must not abort it.
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        # Sorted: two that add the same keys would wait for each other's rows.
        answers = sorted(values)
        for statement, rows in ((ADD, answers), (NOTIFY, [*wake_ups])):
            if rows:
                cursor.execute(statement, [[*column] for column in zip(*rows, strict=True)])
        if keys := [*deleted]:
            cursor.execute(DELETE, [keys])
        if random.random() * PRUNE_ONE_IN < len(answers):
            cursor.execute(PRUNE, [5 * max(PRUNE_ONE_IN, len(answers))])


def read(keys: tuple[str, ...]) -> list[bytes | None]:
    """Return what is stored under the keys."""
    with connections[conf.current().database].cursor() as cursor:
        cursor.execute(READ, [[*keys]])
        found = {key: bytes(value) for key, value in cursor.fetchall()}
    return [found.get(key) for key in keys]


def url() -> str:
    """Return the database's address for connections that are not Django's, with libpq's OPTIONS."""
    from psycopg.pq import Conninfo  # psycopg is an extra

    settings: dict[str, Any] = connections[conf.current().database].settings_dict
    login = quote(settings["USER"], safe="")
    if settings["PASSWORD"]:
        login += ":" + quote(settings["PASSWORD"], safe="")
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    options = {
        name: value
        for name, value in settings["OPTIONS"].items()
        if name in known and value is not None
    }
    host, port, places = str(settings["HOST"]), str(settings["PORT"]), ""
    if host.startswith("/") or not host:  # a socket's folder
        options |= {name: each for name, each in (("host", host), ("port", port)) if each}
    else:
        hosts = [f"[{each}]" if ":" in each else each for each in host.split(",")]
        ports = cycle((port or "5432").split(","))  # each host's, or one for all
        places = ",".join(f"{each}:{at}" for each, at in zip(hosts, ports, strict=False))
    query = urlencode(options, quote_via=quote)
    name = quote(str(settings["NAME"]), safe="")
    return f"postgresql://{login}@{places}/{name}" + (query and f"?{query}")
