"""Reads. Every one takes the account first: nothing is ever looked up without it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from django.db.models import Model, Q, QuerySet
from rest_framework.exceptions import ValidationError

from parcels.models import Account, Announcement, Brand, Document, Parcel
from parcels.models.announcement import OPEN
from parcels.papers.files import contents
from parcels.statuses import WITHOUT_LABEL

Row = TypeVar("Row", bound=Model)


@dataclass(slots=True)
class Owned:
    """The rows of one account that a request names by id; each is looked up once."""

    account: Account
    _found: dict[tuple[str, int], Model | None] = field(default_factory=dict)

    def row(self, model: type[Row], name: str, row_id: int) -> Row:
        """Return the account's row, which the request calls `name`.

        Raises:
            ValidationError: there is none; somebody else's is none, too.
        """
        if (name, row_id) not in self._found:
            found = model._default_manager.filter(account=self.account, pk=row_id)
            self._found[name, row_id] = found.first()
        row = self._found[name, row_id]
        if not isinstance(row, model):
            raise ValidationError({name: [f"There is no such {name.replace('_', ' ')}."]})
        return row


def parcels_of(account: Account) -> QuerySet[Parcel]:
    """Return all the account's parcels."""
    return Parcel.objects.filter(account=account)


def colli_by_reference(
    account: Account, references: Sequence[str], *, locked: bool
) -> dict[str, list[Parcel]]:
    """Return the colli by reference; locked: of two requests the second finds them announced."""
    parcels = parcels_of(account)
    if locked:
        parcels = parcels.select_for_update(no_key=True)
    return {
        str(first.external_reference): [first]
        if first.collo_count == 1
        else list(
            parcels.filter(colli_uuid=first.colli_uuid, collo_count__gt=1).order_by("collo_nr")
        )
        for first in parcels.filter(external_reference__in=references).order_by("pk")
    }


def parcels_of_receiver(account: Account, email: str) -> QuerySet[Parcel]:
    """Return the account's parcels to the e-mail address, and returns from it."""
    sends_back = Q(is_return=True, from_address__email__iexact=email)
    return parcels_of(account).filter(Q(email__iexact=email) | sends_back)


def parcel_by_tracking(account: Account, number: str) -> Parcel | None:
    """Return the account's newest parcel with this tracking number, or None."""
    if not number.isprintable():  # PostgreSQL refuses NUL instead of finding nothing
        return None
    return parcels_of(account).filter(tracking_number=number).order_by("-pk").first()


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


def labels_of(account: Account, parcel_ids: Sequence[int], *, read: bool) -> dict[int, bytes]:
    """Return the PDF labels by parcel id, empty unless `read`; parcels without one are missing."""
    labels = _documents(account).filter(parcel_id__in=parcel_ids, type="label", format="pdf")
    rows = list(labels if read else labels.defer("content"))
    found = zip(rows, contents(rows) if read else [b""] * len(rows), strict=True)
    return {row.parcel_id: content for row, content in found if content is not None}


def _documents(account: Account) -> QuerySet[Document]:
    """Return the documents that may be printed, without those kept as evidence."""
    return Document.objects.filter(parcel__account=account, attempt=None).exclude(
        parcel__status__in=WITHOUT_LABEL
    )


def waiting_announcements(parcel_ids: Iterable[int]) -> list[Announcement]:
    """Return the announcements of these parcels that have not ended."""
    return list(Announcement.objects.filter(parcel_id__in=list(parcel_ids)).filter(state__in=OPEN))
