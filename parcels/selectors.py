"""Reads. Every one takes the account first: nothing is ever looked up without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db.models import Q, QuerySet

from parcels.models import (
    Account,
    Announcement,
    Attempt,
    Brand,
    CarrierContract,
    Document,
    Integration,
    Parcel,
    SenderAddress,
)
from parcels.models.announcement import OPEN
from parcels.papers.files import contents
from parcels.statuses import WITHOUT_LABEL


def parcels_of(account: Account) -> QuerySet[Parcel]:
    """Return all the account's parcels."""
    return Parcel.objects.filter(account=account)


def parcels_of_receiver(account: Account, email: str) -> QuerySet[Parcel]:
    """Return the account's parcels to the e-mail address, and returns from it."""
    sends_back = Q(from_address__email__iexact=email)
    return parcels_of(account).filter(Q(email__iexact=email) | sends_back)


def parcel_of(account: Account, parcel_id: int) -> Parcel | None:
    """Return the account's parcel, or None; another account's is None, too."""
    return parcels_of(account).filter(pk=parcel_id).first()


def parcel_by_tracking(account: Account, number: str) -> Parcel | None:
    """Return the account's newest parcel with this tracking number, or None."""
    if not number.isprintable():  # PostgreSQL refuses NUL instead of finding nothing
        return None
    return parcels_of(account).filter(tracking_number=number).order_by("-pk").first()


def attempts_of(parcel: Parcel) -> QuerySet[Attempt]:
    """Return every try at the carrier for this parcel, oldest first."""
    return Attempt.objects.filter(announcement__parcel=parcel).select_related("announcement")


def sender_addresses_of(account: Account) -> QuerySet[SenderAddress]:
    """Return where the account sends from, the oldest first."""
    return SenderAddress.objects.filter(account=account)


def contracts_of(account: Account) -> QuerySet[CarrierContract]:
    """Return the account's agreements with carriers, the oldest first."""
    return CarrierContract.objects.filter(account=account).order_by("pk")


def brands_of(account: Account) -> QuerySet[Brand]:
    """Return the account's brands, the oldest first."""
    return Brand.objects.filter(account=account)


def integrations_of(account: Account) -> QuerySet[Integration]:
    """Return the shop systems that are connected to the account, each with its webhook."""
    return Integration.objects.filter(account=account).select_related("webhook")


def return_portal_of(parcel: Parcel) -> str | None:
    """Return the return portal of the parcel's brand: its sender address's, else the first.

    None where there is no portal, where nothing was sent, and for what is a return itself.
    """
    if not parcel.tracking_number or parcel.is_return or parcel.status in WITHOUT_LABEL:
        return None
    brands = Brand.objects.filter(account=parcel.account_id)
    brand = brands.filter(senderaddress=parcel.sender_address or 0).first() or brands.first()
    return brand.return_portal_url or None if brand else None


def in_order(parcel_ids: Sequence[int]) -> list[Parcel]:
    """Return the parcels in the given order; those deleted meanwhile are left out."""
    found = Parcel.objects.in_bulk(parcel_ids)
    return [found[parcel_id] for parcel_id in parcel_ids if parcel_id in found]


def document_of(account: Account, parcel_id: int, kind: str, form: str) -> bytes | None:
    """Return the document's bytes in the given form (pdf, zpl), or None."""
    document = _documents(account).filter(parcel_id=parcel_id, type=kind, format=form).first()
    return contents([document])[0] if document else None


def labels_of(account: Account, parcel_ids: Sequence[int]) -> dict[int, bytes]:
    """Return the PDF labels by parcel id; parcels without one are missing."""
    rows = list(_documents(account).filter(parcel_id__in=parcel_ids, type="label", format="pdf"))
    found = zip(rows, contents(rows), strict=True)
    return {row.parcel_id: content for row, content in found if content is not None}


def _documents(account: Account) -> QuerySet[Document]:
    """Return the documents that may be printed, without those kept as evidence."""
    return Document.objects.filter(parcel__account=account, attempt=None).exclude(
        parcel__status__in=WITHOUT_LABEL
    )


def waiting_announcements(parcel_ids: Iterable[int]) -> list[Announcement]:
    """Return the announcements of these parcels that have not ended."""
    return list(Announcement.objects.filter(parcel_id__in=list(parcel_ids)).filter(state__in=OPEN))
