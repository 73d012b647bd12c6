"""SQL about announcements: the statement that claims, and the query of what a call needs.

`select_for_update(skip_locked=True)` silently takes no lock on SQLite; one UPDATE with a subquery
is atomic there in IMMEDIATE transactions, and on PostgreSQL SKIP LOCKED keeps claimants from
waiting for each other. The rows returned show which process won.
"""

import functools
from copy import copy
from typing import Any

from django.db import connection, connections
from django.db.models import BooleanField, FloatField, IntegerField, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.sql import Query

from parcels.models import Announcement, CarrierContract, State
from parcels.services.clock import age_sql, now_sql

TABLE = Announcement._meta.db_table
_DUE = {
    State.PENDING: "state = %s AND run_at <= {now} AND deadline_at > {now}",
    State.UNKNOWN: "state = %s AND run_at <= {now}"
    " AND (lease_until IS NULL OR lease_until <= {now})",
}
_COLUMNS = ", ".join(field.column or "" for field in Announcement._meta.concrete_fields)
# An account has at most one. No `Subquery`: threads share the statement that claims, and to compile
# a query within it changes that query.
_DEFAULT_CONTRACT = (
    f"SELECT id FROM {CarrierContract._meta.db_table} AS contract"  # noqa: S608 # no input in it
    " WHERE contract.account_id = {0}.account_id AND contract.carrier = {0}.carrier"
    " AND contract.is_default".format(TABLE)
)


def calls_about() -> QuerySet[Announcement]:
    """Return announcements with what a call about one needs, for `job.jobs_for`."""
    return Announcement.objects.select_related("parcel__account").annotate(
        default_contract=RawSQL(_DEFAULT_CONTRACT, [], IntegerField())  # noqa: S611 # no input
    )


class _CompiledOnce(Query):
    """A query whose text stays the same: to compile it takes as long as all else about a claim."""

    compiled: Any = None

    def get_compiler(
        self, using: str | None = None, connection: Any = None, elide_empty: bool = True
    ) -> Any:
        if self.compiled is None:
            first = super().get_compiler(using, connection, elide_empty)
            self.compiled = first, first.as_sql()
        compiler, text = copy(self.compiled[0]), self.compiled[1]
        # Each thread has its own.
        compiler.connection = connection or connections[using or "default"]
        compiler.as_sql = lambda *_, **__: text
        return compiler


@functools.cache
def claiming(state: State) -> tuple[str, QuerySet[Announcement]]:
    """Return what claims, and what reads the claimed: to build them takes longer than to run them.

    All threads share the second: it is only copied.
    """
    # sent_at belongs to the try: an unknown keeps it, a new try has none. An older release did not
    # note since when it is unknown, nor when the call ended: now at the latest.
    since = f"sent_at, unknown_since = coalesce(unknown_since, sent_at, {now_sql()})"
    since += f", call_ended_at = coalesce(call_ended_at, {now_sql()})"
    sent = since if state == State.UNKNOWN else "NULL"
    due = _DUE[state].format(now=now_sql())
    sql = (
        f"UPDATE {TABLE} SET state = %s, claimed_at = {now_sql()},"  # noqa: S608 # no input in it
        f" lease_until = {now_sql('%s')}, fence = fence + 1, claims = claims + 1,"
        f" sent_at = {sent} WHERE id IN (SELECT id FROM {TABLE} WHERE {due} AND id "
    )
    if connection.vendor == "postgresql":
        # The rows are read from what the claim returns, which has the table's name. One parameter
        # for the ids: the statement is prepared once, however many come together. Not RETURNING *:
        # a prepared statement whose columns change under it, in a migration, is refused.
        sql += f"= ANY(%s) FOR UPDATE SKIP LOCKED) RETURNING {_COLUMNS}"
    else:
        sql += "IN (SELECT value FROM json_each(%s))) RETURNING id, fence"
    unknown, settled = age_sql("unknown_since"), age_sql("call_ended_at")
    ages = {
        "unknown_age": RawSQL(f"coalesce({unknown}, 0)", [], FloatField()),  # noqa: S611 # as above
        "settled_for": RawSQL(f"coalesce({settled}, 0)", [], FloatField()),  # noqa: S611
        "overdue": RawSQL(f"{age_sql('deadline_at')} >= 0", [], BooleanField()),  # noqa: S611
    }
    rows = calls_about().annotate(**ages)
    if connection.vendor == "postgresql":
        rows.query = rows.query.chain(klass=_CompiledOnce)
        rows.query.get_compiler(rows.db)
    return sql, rows
