"""What follows for a row without a label: by the policy of `carriers.backoff` with our settings it
is tried again, asked about, put under review, or withdrawn.
"""

import logging
import random
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Coalesce

from carriers import registry
from carriers.backoff import DEFAULT, Decision, Policy, decide, decide_lookup, jittered
from carriers.base import Carrier
from carriers.outcomes import Absent, Announced, NotSent, Outcome, Refused, Throttled, Unknown
from parcels.models import Announcement, Attempt, Parcel, State
from parcels.services.clock import DatabaseNow, now_sql
from parcels.services.ending import OURS, Ending, end, ours
from parcels.services.job import Job
from parcels.services.rows import change_rows

log = logging.getLogger(__name__)

_rng = random.Random()
ERROR_LENGTH = 500


def policy() -> Policy:
    """Return the caps from the settings."""
    scale = settings.TIME_SCALE
    return Policy(
        first=DEFAULT.first * scale,
        longest=DEFAULT.longest * scale,
        longest_unknown=DEFAULT.longest_unknown * scale,
        max_unknown_age=settings.ANNOUNCEMENT_MAX_UNKNOWN_AGE,
        second_look=DEFAULT.second_look * scale,
    )


def after_buying(job: Job, outcome: Refused | Throttled | NotSent | Unknown) -> Decision:
    """Decide after a purchase: the first, one after a proved absence, or a reference sent again."""
    announcement = job.announcement
    return decide(
        outcome,
        announcement.tries,
        repeats=job.carrier.repeats,
        was_unknown=announcement.unknown_since is not None,
        again=announcement.state == State.UNKNOWN,
        unknown_age=announcement.unknown_age,
        rng=_rng,
        policy=policy(),
    )


def after_lookup(job: Job, result: Absent | NotSent | Unknown) -> Decision:
    """Decide after a lookup; `absences` counts this one, if it can be believed."""
    announcement = job.announcement
    attempts = Attempt.objects.filter(announcement=announcement)
    last = attempts.filter(kind="announce").order_by("-id").first()
    return decide_lookup(
        result,
        settled_for=announcement.settled_for,
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
    return carrier.settling * settings.TIME_SCALE


def backoff(announcement: Announcement) -> float:
    """Return the seconds until a try that could not begin is repeated.

    If the guard refuses because the database is slow, it must not be repeated each second.
    """
    return jittered(announcement.fence, random.Random(), policy().first, policy().longest)


def hand_back(rows: Sequence[tuple[Announcement, float]], error: str = "") -> None:
    """Give back claims whose call was never sent: pending again, each so many seconds from now.

    These claims count only with an `error`: a row that can't be prepared goes to a person.
    """
    due = now_sql("given.delay")
    change_rows(
        Announcement,
        [{"id": row.pk, "fence": row.fence, "delay": float(delay)} for row, delay in rows],
        f"state = '{State.PENDING.value}', lease_until = NULL, run_at = {due},"
        f" wake_at = {due}, claims = own.claims - %s, error = coalesce(nullif(%s, ''), own.error)",
        ours(),
        set_values=[int(not error), error],
    )


def go_on(announcement: Announcement, outcome: Outcome, decision: Decision) -> bool:
    """Move the row on after a call that ended nothing, as was decided; False: no longer ours."""
    unknown = {
        "call_ended_at": DatabaseNow(),
        "unknown_since": Coalesce("unknown_since", DatabaseNow()),
    }
    is_unknown = isinstance(outcome, Unknown) or decision.state != State.PENDING
    changes = unknown if is_unknown else {"sent_at": None}
    error = error_text(announcement, outcome)
    return move_on(announcement, State(decision.state), decision.delay, error=error, **changes)


def move_on(announcement: Announcement, state: State, delay: float, **changes: Any) -> bool:
    """Give the row back in a state that is no end, due in `delay` seconds; under our fence."""
    due = DatabaseNow(delay)
    moved = still_ours(announcement).update(
        **{"state": state, "lease_until": None, "claims": 0, "run_at": due, "wake_at": due}
        | changes
    )  # fmt: skip
    return bool(moved)


def still_ours(announcement: Announcement) -> QuerySet[Announcement]:
    """Return the row while it is its claimant's: as `ending.ours`, for one."""
    return Announcement.objects.filter(pk=announcement.pk, fence=announcement.fence, state__in=OURS)


def put_under_review(announcement: Announcement, error: str) -> bool:
    """Leave the decision to a person, under our fence, with the evidence in the attempts."""
    moved = move_on(announcement, State.NEEDS_REVIEW, 0.0, error=error[:ERROR_LENGTH])
    if moved:
        log.warning("announcement %s needs review: %s", announcement.reference, error)
    return moved


def withdraw(announcement: Announcement, parcel: Parcel, state: State) -> bool:
    """Cancel an announcement that no carrier has heard of; False when it isn't `state` any more."""
    announcement.parcel = parcel
    with transaction.atomic():
        return end([Ending(announcement, State.CANCELLED)], states=[state])


def error_text(announcement: Announcement, outcome: Outcome) -> str:
    """Return what went wrong in the dialect's words; empty for a label."""
    name = registry.CARRIERS[announcement.carrier].name
    match outcome:
        case Announced():
            return ""
        case Refused(message=message):
            text = f"{name} service error: {message}"
        case Throttled():
            text = f"{name} service error: too many requests"
        case NotSent(reason=reason, detail=detail) | Unknown(reason=reason, detail=detail):
            text = f"{name} service error: {detail or reason}"
    return text[:ERROR_LENGTH]
