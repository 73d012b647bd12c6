"""A parcel's documents: what the carrier gave, and customs papers that are made when asked for."""

from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from parcels.models import Account, Document
from parcels.papers.customs import customs_paper
from parcels.papers.files import store
from parcels.representation import CUSTOMS_PAPERS, leaves_union
from parcels.selectors import document_of, parcels_of
from parcels.statuses import WITHOUT_LABEL


def document(*, account: Account, parcel_id: int, kind: str, form: str) -> bytes | None:
    """Return the document in the form (pdf, zpl), or None; customs papers are made once.

    Made on demand and not with the label: most are never printed, and they take longer to draw
    than a label takes to store.
    """
    stored = document_of(account, parcel_id, kind, form)
    return stored or (_make(account, parcel_id, kind) if form == "pdf" else None)


def _make(account: Account, parcel_id: int, kind: str) -> bytes | None:
    # Only while its label is kept, too.
    since = timezone.now() - timedelta(seconds=settings.DOCUMENT_KEEP)
    parcel = parcels_of(account).filter(pk=parcel_id, date_announced__gt=since).first()
    if parcel is None or parcel.status in WITHOUT_LABEL or not parcel.tracking_number:
        return None
    if kind not in CUSTOMS_PAPERS or not parcel.parcel_items or not leaves_union(parcel):
        return None
    content = customs_paper(kind, parcel)
    made = Document(parcel=parcel, type=kind, format="pdf", content=content)
    if settings.LABELS_IN == "storage":
        store([made])
    with transaction.atomic():
        # Locked: a receiver that was forgotten while it was drawn stays so.
        still = parcels_of(account).filter(pk=parcel_id, date_forgotten=None)
        if not still.select_for_update(no_key=True):
            return None
        # Two at once draw the same bytes, and the constraint keeps one of them.
        Document.objects.get_or_create(
            parcel=parcel,
            type=kind,
            format="pdf",
            attempt=None,
            defaults={"content": made.content, "file": made.file},
        )
    return content
