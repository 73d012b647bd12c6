"""How the sweeper's search for what is past its keeping is planned, on DATABASE_URL's database.

    python -m parcels.tests.keep_plans KEPT

Migrates, stores that many parcels with a document each, of which few are old, and prints for each
statement that looks for old ones how the database would run it: a JSON list of [statement, plan].
"""

import json
import sys
from datetime import timedelta

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

# One in so many is past its keeping.
OLD = 100
# Rows in a statement: PostgreSQL takes 65,535 values beside one.
AT_ONCE = 500


def main() -> None:
    """Fill the database and print the plans."""
    django.setup()
    call_command("migrate", verbosity=0)
    settings.PARCEL_KEEP = settings.DOCUMENT_KEEP = 3600.0
    fill(int(sys.argv[1]))
    from parcels.services import forget
    from parcels.tests.hold_plans import explaining

    plans: list[tuple[str, str]] = []
    with connection.execute_wrapper(explaining(plans, r'"date_created" <')):
        documents = forget.forget_old_documents()
        parcels = forget.forget_old_parcels()
    assert documents, "no document was old"
    assert parcels, "no parcel was old"
    sys.stdout.write(json.dumps(plans))


def fill(kept: int) -> None:
    """Store parcels of today, and old ones that an identity doesn't tell."""
    from parcels.models import Announcement, Document, Parcel, State
    from parcels.tests.factories import ParcelFactory

    account = ParcelFactory.create().account
    now = timezone.now()
    parcels = Parcel.objects.bulk_create(
        [
            Parcel(account=account, weight=1, status=1000, country="NL", date_announced=now)
            for _ in range(kept)
        ],
        AT_ONCE,
    )
    Announcement.objects.bulk_create(
        [
            Announcement(
                account=account,
                parcel=each,
                reference=f"R{each.pk}",
                state=State.ANNOUNCED,
                deadline_at=now,
            )
            for each in parcels
        ],
        AT_ONCE,
    )
    Document.objects.bulk_create(
        [Document(parcel=each, format="pdf", content=b"%PDF") for each in parcels], AT_ONCE
    )
    old = [each.pk for each in parcels[::-OLD]]
    before = now - timedelta(hours=2)
    Parcel.objects.filter(pk__in=old).update(date_created=before, date_announced=before)
    Document.objects.filter(parcel__in=old).update(date_created=before)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


if __name__ == "__main__":
    main()
