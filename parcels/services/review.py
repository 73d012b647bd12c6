"""A person's decision about an announcement that nothing can resolve by itself.

Evidence first: the attempts, and the spare documents that came for a row that had another owner.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from parcels.models import Announcement, Attempt, Document, Parcel, State
from parcels.services.announce import job_for
from parcels.services.holds import release_holds
from parcels.services.record import ERROR_LENGTH, write_event
from parcels.services.spares import void_spare
from parcels.statuses import Status

# A parcel under review shows one of these: the second once its maximum age has passed.
SHOWN = (Status.BEING_ANNOUNCED, Status.ANNOUNCEMENT_FAILED, Status.CANCELLATION_REQUESTED)


class NotUnderReview(Exception):
    """The announcement was decided meanwhile"""


@dataclass(frozen=True, slots=True)
class Label:
    """What a person knows of a label that was sold: typed in, or of a spare attempt."""

    tracking_number: str
    carrier_id: str = ""
    pdf: bytes | None = None
    spare: Attempt | None = None


def spares(announcement: Announcement) -> list[Attempt]:
    """Return the attempts that brought a label for which the row had another owner."""
    return list(
        Attempt.objects.filter(announcement=announcement, recorded=False, outcome="announced")
    )


def adopt(announcement: Announcement, label: Label, *, by: str) -> None:
    """Take a label that the carrier has sold as the announcement's.

    Raises:
        NotUnderReview: somebody was faster.
    """
    with transaction.atomic():
        _decide(announcement, State.ANNOUNCED, carrier_id=label.carrier_id, error="")
        _note(announcement, "adopted", by, label)
        _keep_documents(announcement, label)
        Parcel.objects.filter(pk=announcement.parcel_id, status__in=SHOWN).update(
            status=Status.READY_TO_SEND,
            tracking_number=label.tracking_number,
            date_announced=timezone.now(),
            date_updated=timezone.now(),
            carrier_error="",
        )
        write_event(announcement, Status.READY_TO_SEND, timezone.now())
    release_holds(announcement.pk)


def give_up(announcement: Announcement, *, by: str) -> None:
    """End it without a label: void what spare labels there are, and show the failure.

    Raises:
        NotUnderReview: somebody was faster.
    """
    message = "The carrier never said whether it made this label; it was given up after a review."
    with transaction.atomic():
        _decide(announcement, State.FAILED, error=message)
        _note(announcement, "given_up", by, Label(""))
        Parcel.objects.filter(pk=announcement.parcel_id, status__in=SHOWN).update(
            status=Status.ANNOUNCEMENT_FAILED, carrier_error=message, date_updated=timezone.now()
        )
        write_event(announcement, Status.ANNOUNCEMENT_FAILED, timezone.now())
    release_holds(announcement.pk)
    for spare in spares(announcement):
        void_spare(
            job_for(announcement),
            carrier_id=spare.carrier_id,
            tracking_number=spare.tracking_number,
            fence=announcement.fence + 1,
        )


def _decide(announcement: Announcement, state: State, **changes: str) -> None:
    # The fence goes up: an attempt that is still under way somewhere must not overrule a person.
    decided = Announcement.objects.filter(
        pk=announcement.pk, state=State.NEEDS_REVIEW, fence=announcement.fence
    ).update(
        state=state,
        fence=announcement.fence + 1,
        lease_until=None,
        date_ended=timezone.now(),
        **changes,
    )
    if not decided:
        raise NotUnderReview


def _note(announcement: Announcement, outcome: str, by: str, label: Label) -> None:
    Attempt.objects.create(
        announcement=announcement,
        kind="review",
        fence=announcement.fence + 1,
        outcome=outcome,
        detail=f"by {by}"[:ERROR_LENGTH],
        carrier_id=label.carrier_id,
        tracking_number=label.tracking_number,
    )


def _keep_documents(announcement: Announcement, label: Label) -> None:
    kept = [Document(type="label", format="pdf", content=label.pdf)] if label.pdf else []
    if label.spare is not None:
        kept += [
            Document(type=each.type, format=each.format, content=each.content)
            for each in Document.objects.filter(attempt=label.spare)
            if not (label.pdf and each.format == "pdf" and each.type == "label")
        ]
    for document in kept:
        document.parcel_id = announcement.parcel_id
    Document.objects.bulk_create(kept)
