"""Withdraw an announcement that no carrier has heard of: a cancellation that costs nothing."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from parcels.models import Announcement, Parcel, State
from parcels.services.holds import release_holds
from parcels.services.status import settle
from parcels.statuses import Status

_WAITING = (Status.BEING_ANNOUNCED, Status.CANCELLATION_REQUESTED)


def withdraw_pending(parcel: Parcel) -> bool:
    """Cancel the parcel's announcement if nobody has claimed it; False when somebody has."""
    pending = Announcement.objects.filter(parcel=parcel, state=State.PENDING).first()
    return pending is not None and _withdraw(pending, parcel, State.PENDING)


def withdraw_claimed(announcement: Announcement, parcel: Parcel) -> bool:
    """Cancel an announcement that is ours by its fence and was not sent."""
    return _withdraw(announcement, parcel, State.ANNOUNCING)


def _withdraw(announcement: Announcement, parcel: Parcel, state: State) -> bool:
    # The row decides: a claim changes state and fence, and whoever comes second changes nothing.
    row = Announcement.objects.filter(pk=announcement.pk, state=state, fence=announcement.fence)
    with transaction.atomic():
        withdrawn = row.update(
            state=State.CANCELLED, lease_until=None, date_ended=timezone.now()
        ) and settle(parcel, _WAITING, Status.CANCELLED)
    if withdrawn:
        release_holds(announcement.pk)
    return bool(withdrawn)
