"""Claim an announcement: take it for a time that ends by itself, in one statement.

`select_for_update(skip_locked=True)` takes no lock on SQLite and says nothing; one UPDATE with a
subquery is atomic there under IMMEDIATE transactions, and on PostgreSQL SKIP LOCKED keeps
claimants from waiting for each other. The count of rows says who won.
"""

from __future__ import annotations

import structlog
from django.conf import settings
from django.db import connection
from django.utils import timezone

from parcels import faults
from parcels.models import Announcement, State
from parcels.services.clock import age_sql, now_sql


def claim(announcement_id: int) -> Announcement | None:
    """Claim a pending announcement that is due; None when it isn't, or somebody else has it."""
    if faults.is_off("claim"):
        return _claim("state <> %s AND id = %s", [State.CANCELLED, announcement_id])
    return _claim(
        "state = %s AND run_at <= {now} AND deadline_at > {now} AND id = %s",
        [State.PENDING, announcement_id],
    )


def claim_unknown(announcement_id: int) -> Announcement | None:
    """Claim an unknown announcement for reconciling; its state stays unknown."""
    return _claim(
        "state = %s AND run_at <= {now} AND (lease_until IS NULL OR lease_until <= {now})"
        " AND id = %s",
        [State.UNKNOWN, announcement_id],
        state=State.UNKNOWN,
    )


def _claim(
    condition: str, parameters: list[object], state: State = State.ANNOUNCING
) -> Announcement | None:
    """Claim, and have the database tell the ages by its own clock, the one that all share."""
    table = Announcement._meta.db_table
    skip = " FOR UPDATE SKIP LOCKED" if connection.vendor == "postgresql" else ""
    # sent_at belongs to the try: an unknown keeps it, a new try has none.
    sent = "sent_at" if state == State.UNKNOWN else "NULL"
    sql = (
        f"UPDATE {table} SET state = %s, claimed_at = {now_sql()},"  # noqa: S608 # no input in it
        f" lease_until = {now_sql(offset=True)}, fence = fence + 1, claims = claims + 1,"
        f" sent_at = {sent}"
        f" WHERE id = (SELECT id FROM {table} WHERE {condition.format(now=now_sql())}{skip})"
        f" RETURNING *, {age_sql('unknown_since')} AS unknown_since_age,"
        f" {age_sql('coalesce(call_ended_at, sent_at)')} AS call_ended_at_age,"
        f" {age_sql('deadline_at')} AS deadline_at_age"
    )
    rows = list(Announcement.objects.raw(sql, [state, settings.ANNOUNCEMENT_LEASE, *parameters]))
    if not rows:
        return None
    row = rows[0]
    row.unknown_age = _age(row, "unknown_since")
    row.settled_for = _age(row, "call_ended_at")
    row.overdue = _age(row, "deadline_at") >= 0
    structlog.contextvars.bind_contextvars(announcement=row.pk, parcel=row.parcel_id)
    return row


def _age(row: Announcement, column: str) -> float:
    moment = getattr(row, column)
    if faults.is_off("clock") and moment is not None:
        return (timezone.now() - moment).total_seconds()
    return float(getattr(row, f"{column}_age") or 0.0)
