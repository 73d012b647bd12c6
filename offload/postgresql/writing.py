"""Django's side: in the project's own connection, and in its transaction."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from django.db import connections, transaction

from offload import conf
from offload.postgresql import ADD, DELETE, NOTIFY, PRUNE, READ

# One of so many writes deletes expired rows: no separate process is needed.
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
        for statement, rows in ((ADD, [*values]), (NOTIFY, [*wake_ups])):
            if rows:
                cursor.execute(statement, [[*column] for column in zip(*rows, strict=True)])
        if keys := [*deleted]:
            cursor.execute(DELETE, [keys])
        if random.randrange(PRUNE_ONE_IN) == 0:
            cursor.execute(PRUNE)


def read(keys: tuple[str, ...]) -> list[bytes | None]:
    """Return what is stored under the keys."""
    with connections[conf.current().database].cursor() as cursor:
        cursor.execute(READ, [[*keys]])
        found = {key: bytes(value) for key, value in cursor.fetchall()}
    return [found.get(key) for key in keys]


def url() -> str:
    """Return the database's address for connections that are not Django's."""
    settings: dict[str, Any] = connections[conf.current().database].settings_dict
    name, host = quote(str(settings["NAME"]), safe=""), str(settings["HOST"])
    login = quote(settings["USER"], safe="")
    if settings["PASSWORD"]:
        login += ":" + quote(settings["PASSWORD"], safe="")
    if host.startswith("/") or not host:  # a socket's folder
        return f"postgresql://{login}@/{name}" + (f"?host={quote(host, safe='')}" if host else "")
    return f"postgresql://{login}@{host}:{settings['PORT'] or 5432}/{name}"
