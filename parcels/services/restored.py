"""After a restored backup: what it shows as not yet bought may have been bought since."""

from __future__ import annotations

from django.db.models import F

from parcels.models import Announcement, State
from parcels.services.clock import DatabaseNow


def distrust_unsent() -> int:
    """Make every waiting announcement unknown, as if sent now; return how many there were.

    Reconciliation then asks each carrier before anything is bought, and parks for a person what a
    carrier can't tell. Only for a database that went back in time: no worker may run meanwhile.
    """
    waiting = Announcement.objects.filter(state__in=[State.PENDING, State.ANNOUNCING])
    return waiting.update(
        state=State.UNKNOWN,
        sent_at=DatabaseNow(),
        lease_until=None,
        run_at=DatabaseNow(),
        wake_at=DatabaseNow(),
        absences=0,
        fence=F("fence") + 1,
    )
