"""From an outcome to the row's next state: the policy of `carriers.backoff`, with our settings."""

from __future__ import annotations

import random

from django.conf import settings

from carriers.backoff import DEFAULT, Decision, Policy, decide, decide_lookup
from carriers.base import Carrier
from carriers.outcomes import LookupResult, Outcome, Unknown
from parcels import faults
from parcels.models import Announcement, Attempt, State
from parcels.services.call import Job

_rng = random.Random()
# Why 5: a claim without a result costs its process; after five the row is the cause, not chance.
MAX_CLAIMS = 5
FATAL = "Its processes died or failed, one after the other."


def is_fatal(announcement: Announcement) -> bool:
    """Tell whether the row's processes died, or it could not be prepared, too often."""
    return announcement.claims > MAX_CLAIMS and not faults.is_off("claims")


def policy() -> Policy:
    """Return the caps from the settings."""
    scale = settings.TIME_SCALE
    return Policy(
        first=DEFAULT.first * scale,
        longest=DEFAULT.longest * scale,
        longest_unknown=DEFAULT.longest_unknown * scale,
        max_unknown_age=settings.ANNOUNCEMENT_MAX_UNKNOWN_AGE,
        second_look=DEFAULT.second_look * scale,
        max_repeats=10**6 if faults.is_off("repeats") else DEFAULT.max_repeats,
    )


def after_buying(job: Job, outcome: Outcome) -> Decision:
    """Decide after a purchase: the first, one after a proved absence, or a reference sent again."""
    announcement = job.announcement
    if isinstance(outcome, Unknown) and faults.is_off("unknown"):
        return Decision("pending")
    return decide(
        outcome,
        announcement.tries,
        repeats=job.carrier.repeats,
        was_unknown=announcement.unknown_since is not None and not faults.is_off("refusal"),
        again=announcement.state == State.UNKNOWN,
        unknown_age=announcement.unknown_age,
        rng=_rng,
        policy=policy(),
    )


def after_lookup(job: Job, result: LookupResult) -> Decision:
    """Decide after a lookup; `absences` counts this one, if it can be believed."""
    announcement = job.announcement
    attempts = Attempt.objects.filter(announcement=announcement)
    last = attempts.filter(kind="announce").order_by("-id").first()
    return decide_lookup(
        result,
        settled_for=announcement.settled_for,
        unknown_age=announcement.unknown_age,
        settling=settling(job.carrier),
        absences=announcement.absences,
        looks=attempts.filter(kind="lookup").count(),
        repeats=announcement.repeats,
        refused=last is not None and last.outcome == "refused",
        believed=not job.changed,
        rng=_rng,
        policy=policy(),
    )


def settling(carrier: Carrier) -> float:
    """Return the seconds after a call's end until "absent" from the carrier can be believed."""
    if faults.is_off("settling"):
        return faults.SHORT_SETTLING
    return carrier.settling * settings.TIME_SCALE
