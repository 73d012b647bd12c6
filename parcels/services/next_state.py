"""From an outcome to the row's next state: the policy of `carriers.backoff`, with our settings."""

from __future__ import annotations

import random
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from carriers.backoff import Decision, Policy, decide, decide_lookup
from carriers.base import Carrier
from carriers.outcomes import LookupResult, Outcome, Unknown
from parcels.models import Announcement, Attempt
from parcels.services import faults

_rng = random.Random()


def policy() -> Policy:
    """Return the caps from the settings."""
    return Policy(
        max_age=settings.ANNOUNCEMENT_MAX_AGE,
        max_unknown_age=settings.ANNOUNCEMENT_MAX_UNKNOWN_AGE,
    )


def after_announcing(announcement: Announcement, carrier: Carrier, outcome: Outcome) -> Decision:
    """Decide after a first purchase, or one after a proved absence."""
    if isinstance(outcome, Unknown) and faults.is_off("unknown"):
        return Decision("pending")
    return decide(
        outcome,
        announcement.tries,
        _age(announcement.date_created),
        repeats=carrier.repeats,
        rng=_rng,
        policy=policy(),
    )


def after_repeating(announcement: Announcement, carrier: Carrier, outcome: Outcome) -> Decision:
    """Decide after the same reference was sent again to a *dedup* carrier."""
    return decide(
        outcome,
        announcement.tries,
        _age(_unknown_since(announcement)),
        repeats=carrier.repeats,
        rng=_rng,
        was_unknown=True,
        policy=policy(),
    )


def after_lookup(announcement: Announcement, carrier: Carrier, result: LookupResult) -> Decision:
    """Decide after a lookup; its absences count this one, if it can be believed."""
    looks = Attempt.objects.filter(announcement=announcement, kind="lookup").count()
    return decide_lookup(
        result,
        since_sent=since_sent(announcement),
        settling=settling(carrier),
        absences=announcement.absences,
        looks=looks,
        rng=_rng,
        policy=policy(),
    )


def settling(carrier: Carrier) -> float:
    """Return the seconds after a send until the carrier's word "absent" can be believed."""
    if faults.is_off("settling"):
        return faults.SHORT_SETTLING
    return carrier.settling * settings.TIME_SCALE


def since_sent(announcement: Announcement) -> float:
    """Return the seconds since the latest try left us."""
    return _age(announcement.sent_at or announcement.date_created)


def _unknown_since(announcement: Announcement) -> datetime:
    """Return when the first try left of which no answer came; repeating moves `sent_at` on."""
    first = (
        Attempt.objects.filter(announcement=announcement, outcome="unknown", sent_at__isnull=False)
        .values_list("sent_at", flat=True)
        .first()
    )
    return first or announcement.sent_at or announcement.date_created


def _age(moment: datetime) -> float:
    return (timezone.now() - moment).total_seconds()
