"""End an announcement: its row, its parcel, its documents, its event, its holds. No other code does
it: recording, reconciling, a review, a withdrawal and the sweeper use this.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from carriers import registry
from parcels import faults
from parcels.models import Announcement, Parcel, State
from parcels.services.clock import now_sql
from parcels.services.holds import release_holds
from parcels.services.rows import change_rows
from parcels.services.status import among, set_status
from parcels.services.wake import wake_after_commit
from parcels.statuses import Status

log = logging.getLogger(__name__)

# Until another decision, the process that made the call knows best: a sweeper that found its lease
# expired has changed the state but not the fence.
OURS = (State.ANNOUNCING, State.UNKNOWN, State.NEEDS_REVIEW)
CANCELLING = (Status.CANCELLATION_REQUESTED, Status.SUBMITTING_CANCELLATION)
# 1002: a review that is overdue. 94: a cancellation that ended without an answer meanwhile.
_READY_FROM = among(
    (Status.BEING_ANNOUNCED, Status.ANNOUNCEMENT_FAILED, Status.CANCELLATION_FAILED)
)
_FAILED_FROM = among((Status.BEING_ANNOUNCED, Status.CANCELLATION_FAILED))
_WITHDRAWN_FROM = among((Status.BEING_ANNOUNCED, Status.CANCELLATION_REQUESTED))


@dataclass(frozen=True, slots=True)
class Ending:
    """How an announcement ends: announced with its label, failed with an error, or cancelled."""

    announcement: Announcement
    state: State
    carrier_id: str = ""
    tracking_number: str = ""
    error: str = ""


def ours(states: Collection[State] = OURS) -> str:
    """Return the condition, for `change_rows`, that a row is still its claimant's."""
    if faults.is_off("fence"):
        return "true"
    named = ", ".join(f"'{state.value}'" for state in states)
    return f"own.fence = given.fence AND own.state IN ({named})"


def end(
    endings: Sequence[Ending],
    *,
    states: Collection[State] = OURS,
    decided: bool = False,
) -> bool:
    """End these, each under its fence, and tell their parcels; False when none was still ours.

    Call it in a transaction; holds are released after the commit. `states` they may be ended from;
    `decided` raises the fence: an attempt still under way must not overrule a person.
    """
    ended = end_rows(endings, states=states, decided=decided)
    tell_parcels(ended)
    if ended:
        ids = [each.announcement.pk for each in ended]
        transaction.on_commit(partial(release_holds, ids), robust=True)
    return bool(ended)


def end_rows(
    endings: Sequence[Ending], *, states: Collection[State] = OURS, decided: bool = False
) -> list[Ending]:
    """End the announcements alone; return the endings of those that were still ours.

    The caller has their parcels told, in the same transaction, and the holds released after it.
    """
    ended = change_rows(
        Announcement,
        [
            {
                "id": each.announcement.pk,
                "fence": each.announcement.fence,
                "state": each.state.value,
                "carrier_id": each.carrier_id,
                "error": each.error,
                # What was unknown once may turn out to have been sold twice.
                "looked_at": each.announcement.unknown_since is not None
                and registry.carrier(each.announcement.carrier).repeats == "lookup",
            }
            for each in endings
        ],
        "state = given.state, lease_until = NULL, claims = 0, fence = own.fence + %s,"
        f" carrier_id = given.carrier_id, error = given.error, date_ended = {now_sql()},"
        f" look_at = CASE WHEN given.looked_at THEN {now_sql('%s')} ELSE own.look_at END",
        ours(states),
        set_values=[int(decided), settings.LATE_LOOKS[0]],
    )
    return [each for each in endings if each.announcement.pk in ended]


def tell_parcels(endings: Sequence[Ending]) -> None:
    """Give the parcels the statuses that follow, with their events; all labels in one statement."""
    _label([each for each in endings if each.state == State.ANNOUNCED])
    for each in endings:
        if each.state != State.ANNOUNCED:
            _no_label(each.announcement.parcel, each.state, each.error)


def _label(endings: Sequence[Ending]) -> None:
    numbers = {each.announcement.parcel_id: each.tracking_number for each in endings}
    changes: dict[str, Any] = {"date_announced": timezone.now(), "carrier_error": ""}
    parcels = [each.announcement.parcel for each in endings]
    moved = set_status(parcels, _READY_FROM, Status.READY_TO_SEND, numbers, **changes)
    for each in endings:
        parcel = each.announcement.parcel
        if parcel not in moved:
            # Its cancellation was asked for meanwhile: what was bought is voided at once.
            Parcel.objects.filter(pk=parcel.pk, status__in=CANCELLING).update(
                tracking_number=each.tracking_number, **changes
            )
            parcel.refresh_from_db()
            wake_after_commit([each.announcement], "void")


def _no_label(parcel: Parcel, state: State, error: str) -> None:
    if state == State.CANCELLED:
        set_status([parcel], _WITHDRAWN_FROM, Status.CANCELLED)
    elif not (
        set_status([parcel], _FAILED_FROM, Status.ANNOUNCEMENT_FAILED, carrier_error=error)
        or set_status([parcel], among(CANCELLING), Status.CANCELLED, carrier_error=error)
    ):
        Parcel.objects.filter(pk=parcel.pk).update(carrier_error=error)
        parcel.refresh_from_db()


def put_under_review(announcement: Announcement, error: str) -> bool:
    """Leave the decision to a person, under our fence, with the evidence in the attempts."""
    moved = Announcement.objects.filter(
        pk=announcement.pk, fence=announcement.fence, state__in=OURS
    ).update(state=State.NEEDS_REVIEW, lease_until=None, claims=0, error=error[:500])
    if moved:
        log.warning("announcement %s needs review: %s", announcement.reference, error)
    return bool(moved)


def withdraw(announcement: Announcement, parcel: Parcel, state: State) -> bool:
    """Cancel an announcement that no carrier has heard of; False when it isn't `state` any more."""
    announcement.parcel = parcel
    with transaction.atomic():
        return end([Ending(announcement, State.CANCELLED)], states=[state])
