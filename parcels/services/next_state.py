"""From an outcome to the row's next state. Pure but for the jitter."""

from __future__ import annotations

import random
from dataclasses import dataclass

from django.conf import settings
from django.utils import timezone

from carriers.outcomes import Announced, NotSent, Outcome, Refused, Throttled, Unknown
from parcels.models import Announcement, State

# Seconds: the first wait after trouble, and the longest.
FIRST_DELAY = 1.0
LONGEST_DELAY = 300.0
# Seconds between the two lookups that prove an absence.
SECOND_LOOK = 2.0


@dataclass(frozen=True, slots=True)
class Step:
    """The next state, and in how many seconds the row is due again."""

    state: State
    delay: float = 0.0


def after_announcing(announcement: Announcement, outcome: Outcome) -> Step:
    """Return what a try's outcome means."""
    match outcome:
        case Announced():
            return Step(State.ANNOUNCED)
        case Refused():
            return Step(State.FAILED)
        case NotSent() | Throttled(nothing_made=True):
            return _try_again(announcement, outcome)
        case Throttled() | Unknown():
            return Step(State.UNKNOWN)
    raise AssertionError(outcome)


def after_reconciling(announcement: Announcement, outcome: Outcome) -> Step:
    """Return what repeating an unknown at a *dedup* carrier means.

    Whatever is no answer leaves it unknown: the first try may still have bought.
    """
    match outcome:
        case Announced():
            return Step(State.ANNOUNCED)
        case Refused():
            return Step(State.FAILED)
    return after_review(announcement)


def after_review(announcement: Announcement, *, absences: int = 0) -> Step:
    """Return what an empty lookup means; `absences` counts those that could be believed."""
    if absences >= 2:
        return Step(State.PENDING)
    if absences == 1:
        return Step(State.UNKNOWN, SECOND_LOOK)
    return Step(State.UNKNOWN, backoff(announcement.tries + announcement.fence))


def seconds_until_due(announcement: Announcement, settling: float) -> float:
    """Return how long until the carrier's word "absent" can be believed."""
    sent = announcement.sent_at or announcement.date_created
    return settling - (timezone.now() - sent).total_seconds()


def backoff(number: int) -> float:
    """Return a wait in seconds: exponential, capped, with full jitter."""
    return random.uniform(0.5, 1.0) * min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(number, 10))


def _try_again(announcement: Announcement, outcome: Outcome) -> Step:
    if timezone.now() >= announcement.deadline_at:
        return Step(State.FAILED)
    if announcement.tries >= settings.ANNOUNCEMENT_MAX_TRIES and isinstance(outcome, Throttled):
        return Step(State.FAILED)
    asked = outcome.retry_after if isinstance(outcome, Throttled) else None
    return Step(State.PENDING, max(asked or 0, backoff(announcement.fence)))
