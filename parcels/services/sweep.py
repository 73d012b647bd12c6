"""The sweeper's steps: recover rows after a lost message, a killed process or a lost store.

Each step is one statement or a few, safe to run by several sweepers at once, and needs no broker:
where a wake-up can't be sent, the caller does the work itself.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from carriers import registry
from parcels.models import Announcement, Hold, Parcel, State
from parcels.models.announcement import OPEN
from parcels.services import carrier_guards
from parcels.services.clock import DatabaseNow, StatementNow, now_sql, waited_sql
from parcels.services.ending import among, set_status
from parcels.services.holds import release
from parcels.services.next_state import withdraw
from parcels.statuses import Status

# Seconds until the same row is woken again: as long as it has waited, within these limits. A long
# queue is not a lost message, and must not fill with copies.
REWAKE = 10
REWAKE_LONGEST = 60
ROWS_AT_ONCE = 200
# Of what is due, by account: the one with the fewest calls in flight comes first, its oldest row
# before its second. The oldest of a backlog is older than any new row.
ORDER = "turn + coalesce(calls, 0), wake_at"
OVERDUE = "It could not be announced within its maximum age."
# Seconds: an update in another order, or one that is taken back, must not bring all to a person.
REMOVED_FOR = 3600
REMOVED = "Its carrier was removed: no process can announce it, or ask about it."
UNDER_REVIEW = "It is not certain whether there is a label; it is under review."
# Seconds: a hold is kept this long after its deadline, for clients that ask late.
KEEP_HOLDS = 3600
# Seconds by which the clocks of a host, which wrote a hold's deadline, and of the database may
# differ.
CLOCKS_APART = 60
HOLDS_AT_ONCE = 500
# A round (a second) forgets more than all processes of a machine can hold again in one.
FORGET_AT_ONCE = 2000


@dataclass(frozen=True, slots=True)
class Due:
    """An announcement that a worker should process."""

    id: int
    account_id: int
    carrier: str
    state: str

    @property
    def task(self) -> str:
        """Return the task for its state."""
        return "announce" if self.state == State.PENDING else "reconcile"


def end_leases() -> int:
    """Take back what a dead or stuck process had: sent → unknown, not sent → pending.

    A row whose processes died twice comes back at a time of its own: if it were claimed again with
    the same others, they would go under review together with the row that is the cause.
    """
    expired = expired_leases()
    suspects = expired.filter(claims__gte=2).values_list("pk", flat=True)[:ROWS_AT_ONCE]
    delays = [(pk, random.uniform(0, settings.ANNOUNCEMENT_LEASE / 2)) for pk in suspects]
    ended = sum(_end_lease(expired.filter(pk=pk), delay) for pk, delay in delays)
    return ended + _end_lease(expired.filter(claims__lt=2), 0.0)


def expired_leases() -> QuerySet[Announcement]:
    """Return the announcements whose process has not recorded a result within its lease."""
    return Announcement.objects.filter(state=State.ANNOUNCING, lease_until__lte=StatementNow())


def _end_lease(rows: QuerySet[Announcement], delay: float) -> int:
    due = {"lease_until": None, "run_at": DatabaseNow(delay), "wake_at": DatabaseNow(delay)}
    # Its call has ended by now (shipping.E001).
    unknown = rows.filter(sent_at__isnull=False).update(
        state=State.UNKNOWN,
        call_ended_at=DatabaseNow(),
        unknown_since=Coalesce("unknown_since", DatabaseNow()),
        **due,
    )
    return unknown + rows.filter(sent_at__isnull=True).update(state=State.PENDING, **due)


def end_overdue() -> int:
    """Put rows under review that are past their deadline and have not ended; return how many.

    No carrier refused them, but a purchase a day late would surprise the shop. Those of a carrier
    that was removed wait for an hour only. A row that can't have been bought and is being cancelled
    is withdrawn.
    """
    free = Q(lease_until=None) | Q(lease_until__lte=StatementNow())
    removed = ~Q(carrier__in=registry.CARRIERS) & Q(date_created__lte=StatementNow(-REMOVED_FOR))
    late = removed | Q(deadline_at__lte=StatementNow())
    overdue = Announcement.objects.filter(free, late, state__in=[State.PENDING, State.UNKNOWN])
    rows = list(overdue.select_related("parcel")[:ROWS_AT_ONCE])
    for row in rows:
        cancelling = row.parcel.status == Status.CANCELLATION_REQUESTED
        if not (
            row.state == State.PENDING and cancelling and withdraw(row, row.parcel, State.PENDING)
        ):
            error = row.error or OVERDUE if row.carrier in registry.CARRIERS else REMOVED
            overdue.filter(pk=row.pk, fence=row.fence).update(
                state=State.NEEDS_REVIEW, fence=F("fence") + 1, error=error
            )
    return len(rows)


def due_announcements() -> Iterator[Due]:
    """Yield what is due for a wake-up, and note when it would be next."""
    for carrier in _waited_for():
        # More than the free slots, or any at an open breaker, would only be turned away.
        room = carrier_guards.room(carrier)
        if room:
            yield from _due_of(carrier, room)


def _waited_for() -> list[str]:
    """Return the carriers for which something is due: usually none, and one statement says so."""
    due = "statement_timestamp()" if connection.vendor == "postgresql" else now_sql()
    sql = (
        f"SELECT column1 FROM (VALUES {', '.join(['(%s)'] * len(registry.CARRIERS))}) AS carriers"  # noqa: S608 # no input in it
        f" WHERE EXISTS (SELECT 1 FROM {Announcement._meta.db_table} WHERE carrier = column1"
        f" AND state IN ('pending', 'unknown') AND wake_at <= {due})"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, list(registry.CARRIERS))
        return [code for (code,) in cursor.fetchall()]


def _due_of(carrier: str, limit: int) -> list[Due]:
    table = Announcement._meta.db_table
    skip = " FOR UPDATE SKIP LOCKED" if connection.vendor == "postgresql" else ""
    due = "statement_timestamp()" if connection.vendor == "postgresql" else now_sql()
    later = waited_sql("date_created", REWAKE, REWAKE_LONGEST)
    # This query can't lock: PostgreSQL has no FOR UPDATE with a window function. So the locked rows
    # are checked again.
    sql = (
        f"UPDATE {table} SET wake_at = {later} WHERE id IN ("  # noqa: S608 # no input in it
        f"SELECT id FROM {table} WHERE wake_at <= {due} AND id IN (SELECT id FROM ("
        "SELECT id, account_id, wake_at,"
        " row_number() OVER (PARTITION BY account_id ORDER BY wake_at) AS turn"
        f" FROM {table} WHERE carrier = %s AND state IN ('pending', 'unknown')"
        f" AND wake_at <= {due}) AS waiting"
        f" LEFT JOIN (SELECT account_id, count(*) AS calls FROM {table}"
        " WHERE carrier = %s AND state = 'announcing' GROUP BY account_id) AS busy"
        f" USING (account_id) ORDER BY {ORDER} LIMIT {limit}){skip})"
        " RETURNING id, account_id, carrier, state"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [carrier, carrier])
        return [Due(*row) for row in cursor.fetchall()]


def not_woken(announcement_ids: list[int]) -> None:
    """Have the next round wake these again: no message about them was delivered."""
    if announcement_ids:
        Announcement.objects.filter(pk__in=announcement_ids).update(wake_at=DatabaseNow())


def wake_all_again() -> int:
    """Make every waiting row due: the broker has lost its queue.

    Rows that are due already need no write; after an outage that is nearly all of a long backlog.
    """
    asleep = Announcement.objects.filter(
        state__in=[State.PENDING, State.UNKNOWN],
        wake_at__gt=StatementNow(),
        run_at__lte=StatementNow(),
    )
    return asleep.update(wake_at=DatabaseNow())


def release_forgotten() -> int:
    """Release holds whose announcements have ended but whose client was not told."""
    return release(list(forgotten_holds()[:HOLDS_AT_ONCE]))


def forgotten_holds() -> QuerySet[Hold]:
    """Return the holds that could be released: all that they wait for has ended."""
    before = StatementNow(-CLOCKS_APART)
    waiting = Hold.objects.filter(released_at=None, deadline_at__gte=before)
    return waiting.exclude(announcements__state__in=OPEN)


def forget_old_holds() -> int:
    """Delete a batch of the holds that no client can ask for any more; return how many."""
    before = timezone.now() - timedelta(seconds=KEEP_HOLDS)
    old = Hold.objects.filter(deadline_at__lt=before).order_by("deadline_at")
    ids = list(old.values_list("pk", flat=True)[:FORGET_AT_ONCE])
    Hold.objects.filter(pk__in=ids).delete()
    return len(ids)


def show_overdue_reviews() -> int:
    """Show the client a failure for what a person has not decided within its maximum age."""
    overdue = Announcement.objects.filter(
        state=State.NEEDS_REVIEW, deadline_at__lte=StatementNow()
    ).values("parcel_id")
    shown = 0
    waiting = among([Status.BEING_ANNOUNCED])
    for parcel in Parcel.objects.filter(status=Status.BEING_ANNOUNCED, pk__in=overdue)[
        :ROWS_AT_ONCE
    ]:
        with transaction.atomic():
            failed = Status.ANNOUNCEMENT_FAILED
            shown += len(set_status([parcel], waiting, failed, carrier_error=UNDER_REVIEW))
    return shown
