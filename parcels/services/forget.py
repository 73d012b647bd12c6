"""Remove what is kept about receivers: of one on request, of all by age.

A parcel's numbers, states and country stay: disputes about invoices take longer than a receiver's
address is needed. A parcel that was never announced is deleted.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

import offload
from offload.tickets import LATE_GRACE
from parcels.models import Account, Announcement, Attempt, Document, Hold, IdempotencyKey, Parcel
from parcels.models.announcement import OPEN
from parcels.services.cancel import pass_on_reference
from parcels.services.tidy import discard
from parcels.statuses import Status

# Fields that have, or may have, personal data, and their replacements. The fingerprint is a hash of
# it.
BLANK: dict[str, Any] = {
    **dict.fromkeys(("name", "company_name", "address", "address_2", "house_number"), ""),
    **dict.fromkeys(("city", "postal_code", "telephone", "email", "to_post_number"), ""),
    **dict.fromkeys(("note", "carrier_error", "fingerprint"), ""),
    "reference": "0",
    "to_state": None,
    "to_service_point": None,
    "from_address": {},
    "parcel_items": [],
}
# Replaces an invalid parcel that an answer repeats: a batch still counts it.
GONE = {"parcel": {}, "errors": {"non_field_errors": ["This parcel's data was deleted."]}}
# Seconds after its deadline until Redis has lost a hold's late answer; the rest is for the moments
# at which the two are counted from.
TOLD = LATE_GRACE + 5
# A round (a second) forgets more than the carriers announce in one; and PostgreSQL takes 65,535
# parameters in a statement.
PARCELS_AT_ONCE = 200
DOCUMENTS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What became of a request. `left` is under way, or in one of the `waiting` answers.

    A client may still fetch these, also of an announcement that has ended: try again.

    `answered` is False where Redis could not be told to delete what it has.
    """

    removed: list[int]
    deleted: list[int]
    left: list[int]
    waiting: int
    answered: bool


def forget_receiver(account: Account, parcels: QuerySet[Parcel], email: str = "") -> Forgotten:
    """Remove what the account's parcels, and answers that are about them or the address, say."""
    ids = list(parcels.filter(date_forgotten=None).order_by("pk").values_list("pk", flat=True))
    about = _holds_about(account, set(ids), email)
    told_before = timezone.now() - timedelta(seconds=TOLD)
    waiting = [hold for hold in about if hold.deadline_at > told_before]
    busy = {pk for hold in waiting for pk in hold.question["parcels"]}
    free = [pk for pk in ids if pk not in busy]
    over = [hold.pk for hold in about if hold not in waiting]
    # Before the parcels: a second try, after an error below, would not find these by them.
    answered = offload.forget(over)
    Hold.objects.filter(pk__in=over).delete()
    removed, deleted = list[int](), list[int]()
    for place in range(0, len(free), PARCELS_AT_ONCE):
        portion = forget(free[place : place + PARCELS_AT_ONCE])
        removed += portion[0]
        deleted += portion[1]
    if email:
        _forget_in_keys(account, email)
    left = sorted(set(ids) - {*removed, *deleted})
    return Forgotten(removed, deleted, left, len(waiting), answered)


def forget(parcel_ids: Sequence[int]) -> tuple[list[int], list[int]]:
    """Remove the parcels' personal data, in one transaction; leave those with a running
    announcement.

    Returns the ids of those that have none now, and of those that were deleted.
    """
    parcels = Parcel.objects.filter(pk__in=parcel_ids)
    with transaction.atomic():
        # The announcements before their parcels, as everybody locks them.
        _lock(Announcement.objects.filter(parcel__in=parcel_ids))
        _lock(parcels)
        found = dict(_free(parcels).values_list("pk", "status"))
        deleted = [pk for pk, status in found.items() if status == Status.NO_LABEL]
        removed = [pk for pk in found if pk not in deleted]
        discard(Document.objects.filter(parcel__in=found))
        drafts = Parcel.objects.filter(pk__in=deleted)
        of_several = list(drafts.filter(collo_count__gt=1))
        drafts.delete()
        for each in of_several:
            pass_on_reference(each)
        _remove(removed)
    return removed, deleted


def _lock(rows: QuerySet[Any]) -> None:
    list(rows.select_for_update().order_by("pk").values_list("pk", flat=True))


def _free(parcels: QuerySet[Parcel]) -> QuerySet[Parcel]:
    """Return those that are not forgotten yet, and about which no call is to be made."""
    under_way = Announcement.objects.filter(parcel=OuterRef("pk"), state__in=OPEN)
    return parcels.filter(~Exists(under_way), date_cancel_requested=None, date_forgotten=None)


def _remove(parcel_ids: Sequence[int]) -> None:
    Document.objects.filter(parcel__in=parcel_ids).delete()
    announcements = Announcement.objects.filter(parcel__in=parcel_ids)
    announcements.update(error="")
    # A carrier's own words; the others are ours.
    Attempt.objects.filter(announcement__in=announcements, outcome="refused").update(detail="")
    Parcel.objects.filter(pk__in=parcel_ids).update(**BLANK, date_forgotten=timezone.now())


def _holds_about(account: Account, parcel_ids: set[int], email: str) -> list[Hold]:
    """Return the holds whose answers have the parcels in them, or repeat the address.

    Not by their announcements: a batch's answer has parcels in it that it didn't wait for.
    """
    return [
        hold
        for hold in Hold.objects.filter(account=account).iterator()
        if not parcel_ids.isdisjoint(hold.question["parcels"])
        or _repeats(hold.question.get("failed"), email)
    ]


def _forget_in_keys(account: Account, email: str) -> None:
    kept = IdempotencyKey.objects.filter(account=account)
    for row in kept.filter(question__question__failed__0__isnull=False):
        question = row.question["question"]  # type: ignore[index] # it has one: see above
        if _repeats(question["failed"], email):
            question["failed"] = [
                GONE if _repeats(each, email) else each for each in question["failed"]
            ]
            row.save(update_fields=["question"])


def _repeats(value: object, email: str) -> bool:
    text = json.dumps(value, ensure_ascii=False).casefold()
    return bool(email) and email.casefold() in text


def forget_old_parcels() -> int:
    """Forget a portion of the receivers past their keeping; for the sweeper. Returns how many."""
    before = _before(settings.PARCEL_KEEP)
    # A draft may be announced, a doubt adopted, when it is old.
    announced = Q(date_announced=None) | Q(date_announced__lt=before)
    old = _free(Parcel.objects.filter(announced, date_created__lt=before))
    ids = list(old.order_by("date_created").values_list("pk", flat=True)[:PARCELS_AT_ONCE])
    return sum(map(len, forget(ids))) if ids else 0


def forget_old_documents() -> int:
    """Delete a portion of the documents past their keeping; for the sweeper. Returns how many.

    What a person needs for a decision stays until it is made.
    """
    under_way = Announcement.objects.filter(parcel=OuterRef("parcel"), state__in=OPEN)
    old = Document.objects.filter(
        ~Exists(under_way), date_created__lt=_before(settings.DOCUMENT_KEEP)
    )
    ids = list(old.order_by("date_created").values_list("pk", flat=True)[:DOCUMENTS_AT_ONCE])
    rows = Document.objects.filter(pk__in=ids)
    with transaction.atomic():
        discard(rows)
        rows.delete()
    return len(ids)


def _before(seconds: float) -> datetime:
    return timezone.now() - timedelta(seconds=seconds)
