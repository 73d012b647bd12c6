"""Figures for operators, read from the rows. Each is one query with a partial index."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Min
from django.utils import timezone

from parcels.models import Announcement, Hold, State
from parcels.models.announcement import FINAL

_WAITING = [state for state in State.values if state not in FINAL]


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """One carrier's announcements in one state: how many, and the oldest's age in seconds."""

    carrier: str
    state: str
    length: int
    oldest: float


def queue_figures() -> list[QueueFigures]:
    """Return what has not ended, by carrier and state."""
    now = timezone.now()
    rows = (
        Announcement.objects.filter(state__in=_WAITING)
        .values_list("carrier", "state")
        .annotate(length=Count("pk"), first=Min("date_created"))
        .order_by("carrier", "state")
    )
    return [
        QueueFigures(carrier, state, length, max((now - first).total_seconds(), 0.0))
        for carrier, state, length, first in rows
    ]


def count_open_holds() -> int:
    """Return how many clients wait."""
    return Hold.objects.filter(released_at=None, deadline_at__gte=timezone.now()).count()
