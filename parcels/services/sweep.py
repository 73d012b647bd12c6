"""The safety net: what a lost message, a killed process or a lost store leaves behind.

Each step is one statement or a few, safe to run by several sweepers at once, and needs no broker:
where a wake-up can't be sent, the caller does the work itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.db import connection
from django.db.models import Q
from django.utils import timezone

from carriers import registry
from parcels.models import Announcement, Hold, Parcel, State
from parcels.models.announcement import OPEN
from parcels.services import faults, protect
from parcels.services.clock import DatabaseNow, now_sql
from parcels.services.holds import release_hold
from parcels.statuses import Status

# Seconds until the same row is woken again: never sooner than this, then as long again as it has
# waited. A long queue is no lost message, and must not fill with copies of itself.
REWAKE = 10
# Seconds: a hold is kept this long after its deadline, for whoever asks late.
KEEP_HOLDS = 3600
HOLDS_AT_ONCE = 500
# A round (a second) forgets more than all processes of a machine can hold anew in one.
FORGET_AT_ONCE = 2000


@dataclass(frozen=True, slots=True)
class Due:
    """An announcement that somebody should look at."""

    id: int
    carrier: str
    state: str

    @property
    def task(self) -> str:
        """Return the task for its state."""
        return "announce" if self.state == State.PENDING else "reconcile"


def end_leases() -> int:
    """Take back what a dead or stuck process had: sent → unknown, not sent → pending."""
    expired = Announcement.objects.filter(state=State.ANNOUNCING, lease_until__lte=DatabaseNow())
    due = {"lease_until": None, "run_at": DatabaseNow(), "wake_at": DatabaseNow()}
    sent = State.PENDING if faults.is_off("unknown") else State.UNKNOWN
    unknown = expired.filter(sent_at__isnull=False).update(state=sent, **due)
    pending = expired.filter(sent_at__isnull=True).update(state=State.PENDING, **due)
    return unknown + pending


def due_announcements() -> Iterator[Due]:
    """Yield what is due for a wake-up, and note when it would be next."""
    for carrier in registry.all_carriers():
        # More than there is room for, or any at an open breaker, would only be turned away.
        room = protect.room(carrier.code)
        if room:
            yield from _due_of(carrier.code, room)


def _due_of(carrier: str, limit: int) -> list[Due]:
    table = Announcement._meta.db_table
    skip = " FOR UPDATE SKIP LOCKED" if connection.vendor == "postgresql" else ""
    if connection.vendor == "postgresql":
        age = "extract(epoch FROM clock_timestamp() - date_created)"
        later = f"clock_timestamp() + greatest({REWAKE}, {age}) * interval '1 second'"
    else:
        age = "(julianday('now') - julianday(date_created)) * 86400"
        later = f"strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', max({REWAKE}, {age}) || ' seconds')"
    sql = (
        f"UPDATE {table} SET wake_at = {later} WHERE id IN ("  # noqa: S608 # no input in it
        f"SELECT id FROM {table} WHERE carrier = %s AND state IN ('pending', 'unknown')"
        f" AND wake_at <= {now_sql()} ORDER BY wake_at LIMIT {limit}{skip})"
        " RETURNING id, carrier, state"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [carrier])
        return [Due(*row) for row in cursor.fetchall()]


def tend_breakers() -> None:
    """Probe each carrier whose breaker is due for it."""
    for carrier in registry.all_carriers():
        protect.tend(carrier.code)


def wake_all_again() -> int:
    """Make every waiting row due now: the broker has lost its queue."""
    return Announcement.objects.filter(state__in=[State.PENDING, State.UNKNOWN]).update(
        wake_at=DatabaseNow()
    )


def release_forgotten() -> int:
    """Release holds whose announcements have ended but whose client was not told."""
    holds = Hold.objects.filter(released_at=None, deadline_at__gte=timezone.now()).exclude(
        announcements__state__in=OPEN
    )[:HOLDS_AT_ONCE]
    return sum(release_hold(hold) for hold in holds)


def forget_old_holds() -> int:
    """Delete a portion of the holds that nobody can ask for any more; return how many."""
    before = timezone.now() - timedelta(seconds=KEEP_HOLDS)
    old = Hold.objects.filter(deadline_at__lt=before).order_by("deadline_at")
    ids = list(old.values_list("pk", flat=True)[:FORGET_AT_ONCE])
    Hold.objects.filter(pk__in=ids).delete()
    return len(ids)


def show_overdue_reviews() -> int:
    """Show the client a failure for what a person has not decided within its maximum age."""
    overdue = Announcement.objects.filter(
        Q(state=State.NEEDS_REVIEW), deadline_at__lte=timezone.now()
    ).values("parcel_id")
    return Parcel.objects.filter(pk__in=overdue, status=Status.BEING_ANNOUNCED).update(
        status=Status.ANNOUNCEMENT_FAILED,
        carrier_error="The carrier never said whether it made this label; it is under review.",
        date_updated=timezone.now(),
    )
