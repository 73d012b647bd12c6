"""End an announcement: its row, its parcel, its documents, its event, its holds. The only way.

Recording, reconciling, a person's review, a withdrawal and the sweeper all end announcements here.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from carriers import registry
from parcels import faults
from parcels.models import Announcement, Parcel, State
from parcels.services.clock import DatabaseNow
from parcels.services.holds import release_holds
from parcels.services.status import set_status
from parcels.services.wake import wake_after_commit
from parcels.statuses import Status

log = logging.getLogger(__name__)

# While nobody has decided otherwise, the process that made the call has the best word: a sweeper
# that found its lease run out has changed the state and not the fence.
OURS = (State.ANNOUNCING, State.UNKNOWN, State.NEEDS_REVIEW)
CANCELLING = (Status.CANCELLATION_REQUESTED, Status.SUBMITTING_CANCELLATION)
_CANCELLING = Q(status__in=CANCELLING)
# 1002: a review that is overdue. 94: a cancellation that ended without an answer meanwhile.
_READY_FROM = Q(
    status__in=(Status.BEING_ANNOUNCED, Status.ANNOUNCEMENT_FAILED, Status.CANCELLATION_FAILED)
)
_FAILED_FROM = Q(status__in=(Status.BEING_ANNOUNCED, Status.CANCELLATION_FAILED))
_WITHDRAWN_FROM = Q(status__in=(Status.BEING_ANNOUNCED, Status.CANCELLATION_REQUESTED))


def end(
    announcement: Announcement,
    state: State,
    *,
    carrier_id: str = "",
    tracking_number: str = "",
    error: str = "",
    states: Collection[State] = OURS,
    decided: bool = False,
    release: bool = True,
) -> bool:
    """End it as announced, failed or cancelled, under its fence; False when it isn't ours any more.

    Call it in a transaction; holds are released after the commit, but for `release=False`: then the
    caller releases those of many at once. `states` it may be ended from; `decided` raises the
    fence: an attempt still under way must not overrule a person.
    """
    row = Announcement.objects.filter(pk=announcement.pk)
    if not faults.is_off("fence"):
        row = row.filter(fence=announcement.fence, state__in=states)
    # What was unknown once may still turn out to have been sold a second time.
    looks = (
        announcement.unknown_since and registry.carrier(announcement.carrier).repeats == "lookup"
    )
    ended = row.update(
        state=state,
        lease_until=None,
        claims=0,
        fence=F("fence") + int(decided),
        carrier_id=carrier_id,
        error=error,
        date_ended=timezone.now(),
        **({"look_at": DatabaseNow(settings.LATE_LOOKS[0])} if looks else {}),
    )
    if ended:
        parcel = announcement.parcel
        if state == State.ANNOUNCED:
            _label(announcement, parcel, tracking_number)
        else:
            _no_label(parcel, state, error)
        if release:
            transaction.on_commit(partial(release_holds, [announcement.pk]), robust=True)
    return bool(ended)


def _label(announcement: Announcement, parcel: Parcel, tracking_number: str) -> None:
    parcel.tracking_number = tracking_number
    changes: dict[str, Any] = {
        "tracking_number": tracking_number,
        "date_announced": timezone.now(),
        "carrier_error": "",
    }
    if not set_status(parcel, _READY_FROM, Status.READY_TO_SEND, **changes):
        # Its cancellation was asked for meanwhile: what was bought is voided at once.
        Parcel.objects.filter(_CANCELLING, pk=parcel.pk).update(**changes)
        parcel.refresh_from_db()
        wake_after_commit([announcement], "void")


def _no_label(parcel: Parcel, state: State, error: str) -> None:
    if state == State.CANCELLED:
        set_status(parcel, _WITHDRAWN_FROM, Status.CANCELLED)
    elif not (
        set_status(parcel, _FAILED_FROM, Status.ANNOUNCEMENT_FAILED, carrier_error=error)
        or set_status(parcel, _CANCELLING, Status.CANCELLED, carrier_error=error)
    ):
        Parcel.objects.filter(pk=parcel.pk).update(carrier_error=error)
        parcel.refresh_from_db()


def park(announcement: Announcement, error: str) -> bool:
    """Leave the decision to a person, under our fence, with the evidence in the attempts."""
    parked = Announcement.objects.filter(
        pk=announcement.pk, fence=announcement.fence, state__in=OURS
    ).update(state=State.NEEDS_REVIEW, lease_until=None, claims=0, error=error[:500])
    if parked:
        log.warning("announcement %s needs review: %s", announcement.reference, error)
    return bool(parked)


def withdraw(announcement: Announcement, parcel: Parcel, state: State) -> bool:
    """Cancel an announcement that no carrier has heard of; False when it isn't `state` any more."""
    announcement.parcel = parcel
    with transaction.atomic():
        return end(announcement, State.CANCELLED, states=[state])
