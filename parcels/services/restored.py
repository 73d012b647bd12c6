"""After a restored backup or a failover: a label that isn't recorded may have been bought.

After a broker's restart: messages may be missing.

A promoted standby lacks the last commits of the old primary, unless commits waited for it
(`synchronous_standby_names`). Each promotion begins a new timeline.
"""

from functools import cache

import redis
from django.apps import apps
from django.conf import settings
from django.db import connection
from django.db.backends.utils import CursorWrapper
from django.db.models import AutoField, F, QuerySet
from django.db.models.functions import Coalesce

from carriers.outcomes import Refused
from offload.redis_clients import sync_client
from parcels.models import Announcement, FeedCursor, SpareLabel, SpareState, State
from parcels.services import void
from parcels.services.clock import DatabaseNow
from parcels.services.wake import REDIS

ROWS_AT_ONCE = 10_000
# More than are issued between two backups: five days of 20 parcels a second.
IDS_SKIPPED = 10_000_000
_client = cache(sync_client)
TIMELINE = "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"
# The row with the timeline in which nothing is to be distrusted. Without it that is the first one,
# in which no server was promoted: what a promoted one lacks, or a backup, may be this row.
TRUSTED, FIRST = "timeline", 1


def timeline() -> str | None:
    """Return the history that the database writes; None where it has only one."""
    if connection.vendor != "postgresql":
        return None
    with connection.cursor() as cursor:
        cursor.execute(TIMELINE)
        return str(cursor.fetchone()[0])


def is_distrusted(now: str) -> bool:
    """Tell whether this timeline began since the last look, also of another sweeper's."""
    trusted = FeedCursor.objects.filter(name=TRUSTED).first()
    return int(now, 16) != (trusted.seq if trusted else FIRST)


def broker_identity() -> str | None:
    """Return an identity that changes when a Redis broker restarts empty; None if unknown.

    A broker that keeps its queue over a restart has another identity, too: that costs one
    unnecessary round of wake-ups.
    """
    if not settings.BROKER_URL.startswith(REDIS):
        return None
    try:
        return str(_client(settings.BROKER_URL).info("server")["run_id"])
    except redis.RedisError:
        return None


def skip_ids() -> None:
    """Issue no id again that a client may have got after the backup: it names another row there."""
    with connection.cursor() as cursor:
        for model in apps.get_app_config("parcels").get_models():
            if isinstance(model._meta.pk, AutoField):
                _skip_ids(cursor, model._meta.db_table)


def _skip_ids(cursor: CursorWrapper, table: str) -> None:
    if connection.vendor == "postgresql":
        cursor.execute(
            "SELECT setval(own, nextval(own) + %s)"
            " FROM CAST(pg_get_serial_sequence(%s, 'id') AS regclass) AS own",
            [IDS_SKIPPED, table],
        )
        return
    # A table that was always empty isn't in it.
    cursor.execute(
        "INSERT INTO sqlite_sequence (name, seq) SELECT %s, 0"
        " WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = %s)",
        [table, table],
    )
    cursor.execute(
        "UPDATE sqlite_sequence SET seq = seq + %s WHERE name = %s", [IDS_SKIPPED, table]
    )


def distrust_unsent() -> int:
    """Make every waiting announcement unknown, as if sent now; return how many there were.

    Reconciliation then asks each carrier before a purchase, and puts those under review for which
    the carrier has no lookup. An unknown one may have been sent again: its settling starts again.
    Running calls whose guard is still in the database are left to their workers. A void may be
    missing, too: one more try counts, so that a refusal proves nothing (`spares.call_void`). The
    timeline is trusted from then on.
    """
    now = timeline()  # before: another failover meanwhile is another reason
    under_way = {"state": State.ANNOUNCING, "sent_at__isnull": False}
    rows = Announcement.objects.exclude(**under_way, lease_until__gt=DatabaseNow())
    # Each part as a partial index has it: for three states PostgreSQL would read the whole table.
    # In one statement: a row may go from one part to the other meanwhile.
    unsent = rows.filter(state__in=[State.PENDING, State.UNKNOWN]).values_list("pk", flat=True)
    claimed = rows.filter(state=State.ANNOUNCING).values_list("pk", flat=True)
    ids = sorted(unsent.union(claimed, all=True))
    waiting = rows.filter(state__in=[State.PENDING, State.UNKNOWN, State.ANNOUNCING])
    # In portions: a day's backlog in one statement would be cut by its time-out, each time.
    count = sum(
        _distrust(waiting.filter(pk__in=ids[first : first + ROWS_AT_ONCE]))
        for first in range(0, len(ids), ROWS_AT_ONCE)
    )
    void.cancelling().filter(lease_until=None).update(claims=F("claims") + 1)
    # One that was refused was live: its next refusal says no more, and a person is to see it.
    spares = SpareLabel.objects.filter(state=SpareState.OPEN).exclude(error=Refused.__name__)
    spares.update(tries=F("tries") + 1)
    if now:
        FeedCursor.objects.update_or_create(name=TRUSTED, defaults={"seq": int(now, 16)})
    return count


def _distrust(waiting: QuerySet[Announcement]) -> int:
    return waiting.update(
        state=State.UNKNOWN,
        sent_at=DatabaseNow(),
        # A call whose guard was lost may go on for as long.
        call_ended_at=DatabaseNow(settings.CARRIER_CALL_DEADLINE),
        unknown_since=Coalesce("unknown_since", DatabaseNow()),
        lease_until=None,
        run_at=DatabaseNow(),
        wake_at=DatabaseNow(),
        absences=0,
        fence=F("fence") + 1,
    )
