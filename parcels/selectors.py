"""Reads. Every one takes the account first: nothing is ever looked up without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import OuterRef, Q, QuerySet, Subquery

from parcels import faults
from parcels.models import (
    Account,
    Announcement,
    Attempt,
    Brand,
    CarrierContract,
    Document,
    Hold,
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


def open_holds(announcement_ids: Sequence[int]) -> list[Hold]:
    """Return the holds that wait for these announcements and whose last one has ended."""
    holds = list(
        Hold.objects.filter(announcements__in=announcement_ids, released_at=None).distinct()
    )
    # Most wait for one alone, and it has ended: no second question to the database then.
    several = [hold.pk for hold in holds if len(hold.question["parcels"]) > 1]
    if not several:
        return holds
    waiting = Hold.objects.filter(pk__in=several, announcements__state__in=OPEN)
    still = set(waiting.values_list("pk", flat=True))
    return [hold for hold in holds if hold.pk not in still]


def calls_about() -> QuerySet[Announcement]:
    """Return announcements with what a call about one needs: see `contracts_of_calls`."""
    defaults = CarrierContract.objects.filter(
        account_id=OuterRef("account_id"), carrier=OuterRef("carrier"), is_default=True
    )
    return Announcement.objects.select_related("parcel__account").annotate(
        default_contract=Subquery(defaults.values("pk")[:1])
    )


def contracts_of_calls(announcements: Sequence[Announcement]) -> dict[int, CarrierContract | None]:
    """Return the contract of each of these, which `calls_about` has read, by its id.

    It is the one that the announcement began with; at first the parcel's, or the default. None:
    ours with that carrier, of `settings.HOUSE_CREDENTIALS`.
    """
    wanted = {each.pk: _contract_of(each) for each in announcements}
    known = CarrierContract.objects.in_bulk(set(filter(None, wanted.values())))
    return {pk: known.get(contract or 0) for pk, contract in wanted.items()}


def _contract_of(announcement: Any) -> int | None:
    if announcement.credentials_hash and not faults.is_off("credentials"):
        return announcement.contract_id
    return announcement.parcel.contract_id or announcement.default_contract
