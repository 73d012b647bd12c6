"""How the queues' figures are planned, the application's and the live page's.

    python -m parcels.tests.figure_plans BOUGHT

Migrates, stores that many bought labels and one announcement in each state that has not ended, and
prints how the database that DATABASE_URL names would run both, and the search for what a new
timeline makes unknown: a JSON list of [statement, plan].
"""

import json
import sys

import django
from django.core.management import call_command
from django.db import connection


def main() -> None:
    """Fill the database and print the plans."""
    django.setup()
    call_command("migrate", verbosity=0)
    from deploy import rows
    from parcels.figures import queue_figures
    from parcels.models.announcement import OPEN
    from parcels.services.restored import distrust_unsent
    from parcels.tests.factories import AnnouncementFactory
    from parcels.tests.hold_plans import explaining
    from parcels.tests.keep_plans import fill

    for state in OPEN:
        AnnouncementFactory.create(carrier="postnl", state=state)
    fill(int(sys.argv[1]))
    plans: list[tuple[str, str]] = []
    with (
        connection.execute_wrapper(explaining(plans, "GROUP BY|UNION")),
        connection.cursor() as cursor,
    ):
        figures = queue_figures()
        cursor.execute(rows._QUEUE)
        same = cursor.fetchall()
        distrust_unsent()
    assert [each.state for each in figures] == sorted(OPEN), "a state is missing"
    assert sorted(row[1] for row in same) == sorted(OPEN), "a state is missing"
    sys.stdout.write(json.dumps(plans))


if __name__ == "__main__":
    main()
