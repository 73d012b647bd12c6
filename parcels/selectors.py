"""Reads. Every one takes the account first: nothing is ever looked up without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db.models import QuerySet

from parcels.models import Account, Announcement, Document, Hold, Parcel
from parcels.models.announcement import FINAL


def parcels_of(account: Account) -> QuerySet[Parcel]:
    """Return all the account's parcels."""
    return Parcel.objects.filter(account=account)


def parcel_of(account: Account, parcel_id: int) -> Parcel | None:
    """Return the account's parcel, or None; somebody else's is None, too."""
    return parcels_of(account).filter(pk=parcel_id).first()


def in_order(parcel_ids: Sequence[int]) -> list[Parcel]:
    """Return the parcels in the given order; those deleted meanwhile are left out."""
    found = Parcel.objects.in_bulk(parcel_ids)
    return [found[parcel_id] for parcel_id in parcel_ids if parcel_id in found]


def label_of(account: Account, parcel_id: int, form: str = "pdf") -> bytes | None:
    """Return the label's bytes in the given form, or None."""
    document = Document.objects.filter(
        parcel__account=account,
        parcel_id=parcel_id,
        type="label",
        format=form,
        attempt=None,
    ).first()
    return bytes(document.content) if document else None


def labels_of(account: Account, parcel_ids: Sequence[int]) -> dict[int, bytes]:
    """Return the PDF labels by parcel id; parcels without one are missing."""
    documents = Document.objects.filter(
        parcel__account=account,
        parcel_id__in=parcel_ids,
        type="label",
        format="pdf",
        attempt=None,
    )
    return {document.parcel_id: bytes(document.content) for document in documents}


def waiting_announcements(parcel_ids: Iterable[int]) -> list[Announcement]:
    """Return the announcements of these parcels that have not ended."""
    return list(
        Announcement.objects.filter(parcel_id__in=list(parcel_ids)).exclude(state__in=FINAL)
    )


def open_holds(announcement_id: int) -> list[Hold]:
    """Return the holds that wait for the announcement and whose last announcement has ended."""
    waiting = Announcement.objects.exclude(state__in=FINAL).values("pk")
    return list(
        Hold.objects.filter(announcements=announcement_id, released_at=None).exclude(
            announcements__in=waiting
        )
    )
