"""Claim announcements: take them for the time of a lease, in one statement; give them back.

`select_for_update(skip_locked=True)` silently takes no lock on SQLite; one UPDATE with a subquery
is atomic there in IMMEDIATE transactions, and on PostgreSQL SKIP LOCKED keeps claimants from
waiting for each other. The rows returned show which process won.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import FloatField
from django.db.models.expressions import RawSQL
from django.utils import timezone

from parcels import faults
from parcels.consignment import calls_about
from parcels.models import Announcement, State
from parcels.services.clock import age_sql, now_sql
from parcels.services.ending import ours
from parcels.services.rows import change_rows, preceded_by

_AT_WORK = f"own.state IN ('{State.ANNOUNCING.value}', '{State.UNKNOWN.value}')"
_COLUMNS = ", ".join(field.column or "" for field in Announcement._meta.concrete_fields)
# What the ages of a claimed row count from.
_AGES = {
    "unknown_since": "unknown_since",
    "call_ended_at": "coalesce(call_ended_at, sent_at)",
    "deadline_at": "deadline_at",
}


def claim(announcement_ids: Sequence[int]) -> list[Announcement]:
    """Claim those that are pending, due, and not claimed by another process."""
    if faults.is_off("claim"):
        return _claim("state <> %s", [State.CANCELLED], announcement_ids)
    return _claim(
        "state = %s AND run_at <= {now} AND deadline_at > {now}", [State.PENDING], announcement_ids
    )


def claim_unknown(announcement_id: int) -> Announcement | None:
    """Claim an unknown announcement for reconciling; its state stays unknown.

    None when it isn't due, or somebody else has it.
    """
    rows = _claim(
        "state = %s AND run_at <= {now} AND (lease_until IS NULL OR lease_until <= {now})",
        [State.UNKNOWN],
        [announcement_id],
        state=State.UNKNOWN,
    )
    return rows[0] if rows else None


def note_sending(
    calls: Sequence[tuple[Announcement, int | None, str]], window: float
) -> Collection[int]:
    """Note that calls about these begin, each with its contract and the hash of its credentials.

    Returns the ids of those that are still ours and were claimed at most `window` seconds ago.
    """
    return change_rows(
        Announcement,
        [
            {"id": row.pk, "fence": row.fence, "contract": contract, "hash": credentials}
            for row, contract, credentials in calls
        ],
        f"sent_at = {now_sql()}, tries = own.tries + 1, contract_id = given.contract,"
        " credentials_hash = given.hash",
        f"own.fence = given.fence AND {_AT_WORK} AND own.claimed_at >= {now_sql('%s')}",
        condition_values=[-window],
    )


def hand_back(rows: Sequence[tuple[Announcement, float]], error: str = "") -> None:
    """Give back claims whose call was never sent: pending again, each so many seconds from now.

    With an `error` the claims still count: a row that can't be prepared goes to a person.
    """
    due = now_sql("given.delay")
    change_rows(
        Announcement,
        [{"id": row.pk, "fence": row.fence, "delay": float(delay)} for row, delay in rows],
        f"state = '{State.PENDING.value}', lease_until = NULL, run_at = {due},"
        f" wake_at = {due}, claims = own.claims * %s, error = coalesce(nullif(%s, ''), own.error)",
        ours(),
        set_values=[int(bool(error)), error],
    )


def _claim(
    condition: str,
    parameters: list[Any],
    announcement_ids: Sequence[int],
    state: State = State.ANNOUNCING,
) -> list[Announcement]:
    """Claim, read them with what a call needs, and have the database compute their ages.

    By its clock, which all processes share.
    """
    table = Announcement._meta.db_table
    # sent_at belongs to the try: an unknown keeps it, a new try has none.
    sent = "sent_at" if state == State.UNKNOWN else "NULL"
    sql = (
        f"UPDATE {table} SET state = %s, claimed_at = {now_sql()},"  # noqa: S608 # no input in it
        f" lease_until = {now_sql('%s')}, fence = fence + 1, claims = claims + 1,"
        f" sent_at = {sent}"
        f" WHERE id IN (SELECT id FROM {table} WHERE {condition.format(now=now_sql())} AND id "
    )
    values = [state, settings.ANNOUNCEMENT_LEASE, *parameters]
    ages = {
        f"{name}_age": RawSQL(age_sql(moment), [], FloatField())  # noqa: S611 # no input in it
        for name, moment in _AGES.items()
    }
    rows = calls_about().annotate(**ages)
    if connection.vendor == "postgresql":
        # The rows are read from what the claim returns, which has the table's name. One parameter
        # for the ids: the statement is prepared once, however many come together. Not RETURNING *:
        # a prepared statement whose columns change under it, in a migration, is refused.
        sql += f"= ANY(%s) FOR UPDATE SKIP LOCKED) RETURNING {_COLUMNS}"
        with preceded_by({table: (sql, [*values, list(announcement_ids)])}):
            claimed = list(rows)
    else:
        with connection.cursor() as cursor:
            sql += "IN (SELECT value FROM json_each(%s))) RETURNING id, fence"
            cursor.execute(sql, [*values, json.dumps(announcement_ids)])
            fences = dict(cursor.fetchall())
        # Not those that somebody else has claimed since: this process was paused.
        claimed = [row for row in rows.filter(pk__in=fences) if row.fence == fences[row.pk]]
    for row in claimed:
        row.unknown_age = _age(row, "unknown_since")
        row.settled_for = _age(row, "call_ended_at")
        row.overdue = _age(row, "deadline_at") >= 0
    return claimed


def _age(row: Announcement, column: str) -> float:
    moment = getattr(row, column)
    if faults.is_off("clock") and moment is not None:
        return (timezone.now() - moment).total_seconds()
    return float(getattr(row, f"{column}_age") or 0.0)
