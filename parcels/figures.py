"""Figures for operators: one query each, and a partial index for each of its parts."""

from dataclasses import dataclass

from django.db.models import Count, Min, Q
from django.utils import timezone

from parcels.models import Announcement, Hold, State

# What has not ended, as the conditions of partial indexes: for states of two of them PostgreSQL
# reads the whole table. SQLite does for the first.
_WAITING = [
    Q(state__in=[State.PENDING, State.UNKNOWN]),
    Q(state=State.ANNOUNCING),
    Q(state=State.NEEDS_REVIEW),
]


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
    first, *others = (
        Announcement.objects.filter(condition)
        .values_list("carrier", "state")
        .annotate(length=Count("pk"), first=Min("date_created"))
        for condition in _WAITING
    )
    rows = first.union(*others, all=True).order_by("carrier", "state")
    return [
        QueueFigures(carrier, state, length, max((now - oldest).total_seconds(), 0.0))
        for carrier, state, length, oldest in rows
    ]


def count_open_holds() -> int:
    """Return how many clients wait."""
    return Hold.objects.filter(released_at=None, deadline_at__gte=timezone.now()).count()
