"""How the queues' figures are planned, the application's and the live page's.

    python -m parcels.tests.figure_plans BOUGHT

Migrates, stores that many bought labels and one announcement in each state that has not ended, and
prints how the database that DATABASE_URL names would run both: a JSON list of [statement, plan].
"""

from __future__ import annotations

import json
import sys

import django
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

# Rows in a statement: PostgreSQL takes 65,535 values beside one.
AT_ONCE = 500


def main() -> None:
    """Fill the database and print the plans."""
    django.setup()
    call_command("migrate", verbosity=0)
    fill(int(sys.argv[1]))
    from deploy import rows
    from parcels.figures import queue_figures
    from parcels.models.announcement import OPEN
    from parcels.tests.hold_plans import explaining

    plans: list[tuple[str, str]] = []
    with connection.execute_wrapper(explaining(plans, "GROUP BY")), connection.cursor() as cursor:
        figures = queue_figures()
        cursor.execute(rows._QUEUE)
        same = cursor.fetchall()
    assert [each.state for each in figures] == sorted(OPEN), "a state is missing"
    assert sorted(row[1] for row in same) == sorted(OPEN), "a state is missing"
    sys.stdout.write(json.dumps(plans))


def fill(bought: int) -> None:
    """Store announcements that are announced, and one in each state that has not ended."""
    from parcels.models import Announcement, Parcel, State
    from parcels.models.announcement import OPEN
    from parcels.tests.factories import AnnouncementFactory

    for state in OPEN:
        account = AnnouncementFactory.create(carrier="postnl", state=state).account
    parcels = Parcel.objects.bulk_create(
        [Parcel(account=account, weight=1, status=1000, country="NL") for _ in range(bought)],
        AT_ONCE,
    )
    Announcement.objects.bulk_create(
        [
            Announcement(
                account=account,
                parcel=each,
                carrier="postnl",
                reference=f"R{each.pk}",
                state=State.ANNOUNCED,
                deadline_at=timezone.now(),
            )
            for each in parcels
        ],
        AT_ONCE,
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


if __name__ == "__main__":
    main()
