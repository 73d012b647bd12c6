"""A person's decision about an announcement that no process can resolve.

The evidence: the attempts, and the spare labels that came when another process had the row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from parcels.models import Announcement, Document, SpareLabel, SpareState, State
from parcels.papers.files import contents, store
from parcels.services.ending import Ending, end, note_attempt
from parcels.services.spares import still_open


class NotUnderReview(Exception):
    """The announcement was decided meanwhile."""


class SpareSettled(Exception):
    """A person has closed the spare label that was to be adopted."""


@dataclass(frozen=True, slots=True)
class Label:
    """What a person knows of a label that was sold: typed in, or of a spare label."""

    tracking_number: str
    carrier_id: str = ""
    pdf: bytes | None = None
    spare: SpareLabel | None = None


def papers_of(announcement: Announcement, label: Label) -> list[Document]:
    """Return what is to be kept of the label, unsaved; what was typed in wins over the spare's.

    Not in a transaction: a storage may have the bytes, and be given them.
    """
    parcel = announcement.parcel_id
    kept = [Document(parcel_id=parcel, format="pdf", content=label.pdf)] if label.pdf else []
    if label.spare is not None and label.spare.attempt_id:
        rows = list(Document.objects.filter(attempt=label.spare.attempt_id))
        kept += [
            Document(parcel_id=parcel, type=each.type, format=each.format, content=content)
            for each, content in zip(rows, contents(rows), strict=True)
            if content and not (label.pdf and each.format == "pdf" and each.type == "label")
        ]
    if settings.LABELS_IN == "storage":
        store(kept)
    return kept


def adopt(
    announcement: Announcement, label: Label, papers: Sequence[Document] = (), *, by: str
) -> None:
    """Adopt a label that the carrier has sold; `papers` are those of `papers_of`.

    The sweeper voids the others. Raises: NotUnderReview: it was decided already; SpareSettled.
    """
    with transaction.atomic():
        kept = label.carrier_id, label.tracking_number
        note_attempt(announcement, "review", "adopted", detail=f"by {by}", label=kept)
        _end(Ending(announcement, State.ANNOUNCED, *kept))
        if label.spare and not still_open(label.spare).select_for_update():
            raise SpareSettled("Its spare label was settled by hand meanwhile.")
        Document.objects.bulk_create(papers)


def give_up(announcement: Announcement, *, by: str) -> None:
    """End it without a label and show the failure.

    The sweeper voids all spare labels. Raises: NotUnderReview: it was decided already.
    """
    message = "It was given up after a review: no label is known."
    with transaction.atomic():
        note_attempt(announcement, "review", "given_up", detail=f"by {by}")
        _end(Ending(announcement, State.FAILED, error=message))


def settle_by_hand(spare: SpareLabel, *, by: str) -> bool:
    """Close a spare label that a person has settled with its carrier; False if it was closed."""
    return bool(
        still_open(spare).update(
            state=SpareState.GONE, error=f"settled by {by}"[:500], date_ended=timezone.now()
        )
    )


def _end(ending: Ending) -> None:
    if not end([ending], states=[State.NEEDS_REVIEW], decided=True):
        raise NotUnderReview("It is not under review.")
