"""Cancel a parcel: at once where nothing was bought, else by asking its carrier.

In order of cost: a parcel that was never announced is deleted; an announcement that no carrier has
heard of is withdrawn; a label that was bought is voided by a worker (`void`). While a call to the
carrier runs, the parcel waits for its end with status 1999.
"""

from dataclasses import dataclass
from datetime import timedelta

from django.db import OperationalError, transaction
from django.db.models import Q, QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone

from parcels.models import Account, Announcement, Parcel, State
from parcels.selectors import parcels_of
from parcels.services.accept import FIRST_WAKE_UP
from parcels.services.clock import DatabaseNow
from parcels.services.ending import among, set_status
from parcels.services.next_state import withdraw
from parcels.services.rows import lost_a_race
from parcels.services.wake import wake_after_commit
from parcels.statuses import Status

# The dialect's limit, in days.
CANCELLABLE_DAYS = 42
# Reads of a parcel that changes meanwhile: an announcement ends once, so the third read is final.
LOOKS = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a request to cancel: HTTP status, and the answer's two fields."""

    code: int
    status: str
    message: str


CANCELLED = Verdict(200, "cancelled", "Parcel has been cancelled")
QUEUED = Verdict(202, "queued", "Parcel cancellation has been queued")
FAILED_BEFORE = Verdict(410, "deleted", "Parcel was never announced: its announcement failed")
ALREADY = Verdict(400, "failed", "This parcel has already been cancelled")
DELIVERED = Verdict(400, "failed", "This parcel has been delivered: it can't be cancelled")
TOO_OLD = Verdict(
    400, "failed", f"Parcels can be cancelled within {CANCELLABLE_DAYS} days after announcing"
)
BUSY = Verdict(400, "failed", "This parcel is being changed: try again")

# Its announcement may be one that no carrier has heard of: also pending again, after a cancellation
# came while it was claimed, or under review and shown as failed.
_NOT_BOUGHT = (Status.BEING_ANNOUNCED, Status.CANCELLATION_REQUESTED, Status.ANNOUNCEMENT_FAILED)
_SETTLED: dict[int, Verdict] = {
    Status.ANNOUNCEMENT_FAILED: FAILED_BEFORE,
    Status.CANCELLED: ALREADY,
    Status.CANCELLED_UPSTREAM: ALREADY,
    Status.CANCELLATION_REQUESTED: QUEUED,
    Status.SUBMITTING_CANCELLATION: QUEUED,
    Status.DELIVERED: DELIVERED,
    Status.COLLECTED_BY_CUSTOMER: DELIVERED,
}


def cancel(*, account: Account, parcel_id: int) -> Verdict:
    """Cancel the account's parcel, or ask for it; the same request twice does nothing more.

    Raises:
        Http404: the account has no such parcel.
    """
    for _ in range(LOOKS):
        parcel = get_object_or_404(parcels_of(account), pk=parcel_id)
        try:
            verdict = _cancel(parcel)
        except OperationalError as error:
            if not lost_a_race(error):
                raise
            continue  # a change waited for this order's reference, and we for its parcel
        if verdict:
            return verdict
    return BUSY


def _cancel(parcel: Parcel) -> Verdict | None:
    """Return the verdict; None when the parcel has changed meanwhile."""
    if parcel.status == Status.NO_LABEL:
        return CANCELLED if _delete(parcel) else None
    if parcel.status in _NOT_BOUGHT and withdraw_unsent(parcel):
        return CANCELLED
    verdict = _SETTLED.get(parcel.status)
    # Shown as failed, but a person may still find that it was bought.
    if verdict and not (verdict is FAILED_BEFORE and _under_review(parcel).exists()):
        return verdict
    if _age(parcel) > timedelta(days=CANCELLABLE_DAYS):
        return TOO_OLD
    return QUEUED if _request(parcel) else None


def _under_review(parcel: Parcel) -> QuerySet[Announcement]:
    return Announcement.objects.filter(parcel=parcel, state=State.NEEDS_REVIEW)


def _age(parcel: Parcel) -> timedelta:
    return timezone.now() - (parcel.date_announced or parcel.date_created)


def _delete(parcel: Parcel) -> bool:
    with transaction.atomic():
        # Locked: an announcement that comes in between must not lose its parcel.
        locked = parcels_of(parcel.account).select_for_update()
        row = locked.filter(pk=parcel.pk, status=Status.NO_LABEL).first()
        if row is None:
            return False
        row.delete()
        pass_on_reference(row)
        return True


def pass_on_reference(deleted: Parcel) -> None:
    """Give the order's reference, which its first collo had, to the next one.

    The order that is repeated must find those that are left. Call it in the transaction.
    """
    if deleted.external_reference and deleted.collo_count > 1:
        others = Parcel.objects.filter(colli_uuid=deleted.colli_uuid, collo_count__gt=1)
        heir = others.select_for_update().order_by("collo_nr").first()
        if heir and heir.collo_nr > deleted.collo_nr and heir.external_reference is None:
            heir.external_reference = deleted.external_reference
            heir.save(update_fields=["external_reference", "date_updated"])


def withdraw_unsent(parcel: Parcel) -> bool:
    """Cancel the parcel's announcement if no carrier has heard of it, and it is not claimed."""
    # By both: a release before migration 6 did not note since when a row is unknown.
    unheard = Q(state=State.NEEDS_REVIEW, unknown_since=None, sent_at=None)
    unsent = Q(state=State.PENDING) | unheard
    row = Announcement.objects.filter(unsent, parcel=parcel).first()
    return row is not None and withdraw(row, parcel, State(row.state))


def _request(parcel: Parcel) -> bool:
    with transaction.atomic():
        # Locked: nobody decides meanwhile that it was not bought, which would end it without us.
        failed = parcel.status == Status.ANNOUNCEMENT_FAILED
        if failed and not _under_review(parcel).select_for_update():
            return False
        # The announcement before its parcel, as everybody else locks them. A worker asks the
        # carrier, and the sweeper repeats it; of one under way the end wakes the void.
        bought = Announcement.objects.filter(parcel=parcel, state=State.ANNOUNCED)
        wakes = bought.update(wake_at=DatabaseNow(FIRST_WAKE_UP))
        requested = set_status(
            [parcel],
            among([parcel.status]),
            Status.CANCELLATION_REQUESTED,
            date_cancel_requested=timezone.now(),
        )
        if requested and wakes:
            wake_after_commit(bought, "void")
    return bool(requested)
