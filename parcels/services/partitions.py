"""Attempts and tracking events by month: make next months' partitions, drop the oldest.

PostgreSQL. On SQLite they are plain tables, and what is too old is deleted in portions: an attempt
that brought documents of a spare label after these, which it would take along. A row for which no
month is there goes into the default partition, and into the month when that is made.
"""

import logging
import re
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import DatabaseError, connection, models, transaction
from django.utils import timezone

from parcels import metrics
from parcels.models import Attempt, TrackingEvent

log = logging.getLogger(__name__)

# What a row's month is told by.
KEYS: dict[type[models.Model], str] = {Attempt: "date_created", TrackingEvent: "at"}
# Months that are there ahead: as long may no sweeper run before rows are caught by the default.
AHEAD = 3
# Statements about a whole table wait no longer for it than this: all others wait behind them.
LOCK_TIMEOUT = "2s"
NAME = re.compile(r"(before_)?(\d{4})_(\d\d)")
# What SQLite deletes at once.
ROWS_AT_ONCE = 2000


def tend(now: datetime | None = None) -> int:
    """Make what will be needed, drop what is past HISTORY_KEEP, and count what had no month.

    Return how many rows SQLite deleted: there may be more.
    """
    now, deleted = now or timezone.now(), 0
    before = now - timedelta(seconds=settings.HISTORY_KEEP)
    for model, key in KEYS.items():
        table = model._meta.db_table
        if connection.vendor == "postgresql":
            try:
                try:  # the last first: a month that is late may have more rows than can be moved
                    for month in reversed(months(now, before)):
                        if not _has(table, month):
                            _make(table, key, month)
                finally:
                    _drop_before(table, key, before)
            except DatabaseError:  # it is in use, or this role may not
                log.exception("the partitions of %s are as they were", table)
            metrics.HISTORY_UNPLACED.labels(table).set(_unplaced(table))
        else:
            rows = model._default_manager.order_by("pk")
            if model is Attempt:
                rows = rows.filter(document=None)
            oldest = rows.values_list("pk", key)[:ROWS_AT_ONCE]
            old = [pk for pk, moment in oldest if moment < before]
            model._default_manager.filter(pk__in=old).delete()
            deleted += len(old)
    return deleted


def months(now: datetime, since: datetime | None = None) -> list[datetime]:
    """Return the beginnings of the months from now on, or `since`, to the last that is made ahead.

    Those before: of a month in which no sweeper could make it, the default has the rows.
    """
    first = since or now
    numbers = range(first.year * 12 + first.month - 1, now.year * 12 + now.month + AHEAD)
    return [datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC) for number in numbers]


def following(month: datetime) -> datetime:
    """Return the beginning of the month after."""
    return (month + timedelta(days=31)).replace(day=1)


def partitions(table: str) -> dict[str, datetime]:
    """Return the end of each partition of months, by its name."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_inherits JOIN pg_class ON oid = inhrelid"
            " WHERE inhparent = %s::regclass",
            [table],
        )
        names = [row[0] for row in cursor.fetchall()]
    found = {}
    for name in names:
        if match := NAME.fullmatch(name.removeprefix(f"{table}_")):
            month = datetime(int(match[2]), int(match[3]), 1, tzinfo=UTC)
            found[name] = month if match[1] else following(month)
    return found


def _has(table: str, month: datetime) -> bool:
    ends = partitions(table)
    first = min((end for name, end in ends.items() if "_before_" in name), default=month)
    return month < first or f"{table}_{month:%Y_%m}" in ends


def _make(table: str, key: str, month: datetime) -> None:
    """Make a month's partition, with the rows of it that the default has caught."""
    name, begin, end = f"{table}_{month:%Y_%m}", month.isoformat(), following(month).isoformat()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        cursor.execute(f"LOCK TABLE {table}_default IN ACCESS EXCLUSIVE MODE")
        if _has(table, month):
            return  # another sweeper was first
        cursor.execute(f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)")
        cursor.execute(
            f"WITH moved AS (DELETE FROM {table}_default"  # noqa: S608 # no input in it
            f" WHERE {key} >= %s AND {key} < %s RETURNING *)"
            f" INSERT INTO {name} SELECT * FROM moved",
            [begin, end],
        )
        cursor.execute(
            f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ('{begin}') TO ('{end}')"
        )


def _drop_before(table: str, key: str, before: datetime) -> None:
    for name, end in partitions(table).items():
        if end <= before:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
                cursor.execute(f"DROP TABLE IF EXISTS {name}")
            log.warning("%s is dropped: it ended %s", name, end.date())
    with connection.cursor() as cursor:
        old = f"DELETE FROM {table}_default WHERE {key} < %s"  # noqa: S608 # no input in it
        cursor.execute(old, [before])


def _unplaced(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table}_default")  # noqa: S608 # no input in it
        return int(cursor.fetchone()[0])
