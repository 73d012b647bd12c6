"""How the sweeper's steps on holds are planned, on the database that DATABASE_URL names.

    python -m parcels.tests.hold_plans RELEASED

Migrates, stores that many released holds and a few that wait, and prints for each statement that
looks for holds by their deadline how the database would run it: a JSON list of [statement, plan].
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import django
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

if TYPE_CHECKING:
    from parcels.models import Announcement


def main() -> None:
    """Fill the database and print the plans."""
    django.setup()
    call_command("migrate", verbosity=0)
    fill(int(sys.argv[1]))
    from parcels.services import sweep

    plans: list[tuple[str, str]] = []
    with connection.execute_wrapper(explaining(plans, r'"parcels_hold"\."deadline_at" [<>]')):
        forgotten = sweep.forget_old_holds()
        released = sweep.release_forgotten()
    assert forgotten, "nothing was old"
    assert released == 1, "nobody was forgotten"
    sys.stdout.write(json.dumps(plans))


def fill(released: int) -> None:
    """Store holds: released ones of an hour, few of them too old, some that wait, one forgotten."""
    from parcels.models import Hold, State
    from parcels.tests.factories import AnnouncementFactory

    ended = AnnouncementFactory.create(state=State.ANNOUNCED)
    waiting = AnnouncementFactory.create(state=State.PENDING)
    now = timezone.now()
    hour = timedelta(hours=1)
    rows: list[tuple[datetime, datetime | None, Announcement]]
    rows = [(now - 1.02 * hour * n / released, now, ended) for n in range(released)]
    rows += [(now + hour, None, waiting)] * 20 + [(now + hour, None, ended)]
    # Of a parcel that is there no more: nothing is said to anybody.
    question = {"parcels": [0], "base": "", "path": ""}
    Hold.objects.bulk_create(
        Hold(
            id=f"{number:032}",
            account=ended.account,
            question=question,
            deadline_at=deadline,
            released_at=released_at,
        )
        for number, (deadline, released_at, _) in enumerate(rows)
    )
    Waiting = Hold.announcements.through
    Waiting.objects.bulk_create(
        Waiting(hold_id=f"{number:032}", announcement=announcement)
        for number, (_, _, announcement) in enumerate(rows)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def explaining(plans: list[tuple[str, str]], which: str) -> Callable[..., Any]:
    """Return a wrapper that notes the plan of each statement that has `which`, before it runs."""
    explain = "EXPLAIN " if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN "

    def execute(run: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if re.search(which, sql):
            run(explain + sql, params, many, context)
            plan = context["cursor"].fetchall()
            plans.append((sql, "\n".join(str(row[-1]) for row in plan)))
        return run(sql, params, many, context)

    return execute


if __name__ == "__main__":
    main()
