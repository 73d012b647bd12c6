"""Change a parcel that was not announced yet; announce it if that is what is asked."""

from dataclasses import replace
from typing import Any

from django.db import IntegrityError, OperationalError, transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from rest_framework.exceptions import ValidationError

from parcels.models import Account, Hold, Parcel
from parcels.selectors import Owned, parcels_of
from parcels.serializers import SIDES, SIZE
from parcels.services import protect
from parcels.services.accept import Mode, ReferenceTaken, queue
from parcels.services.fill import fill, make_announceable
from parcels.services.holds import Asked, held_off, open_hold, unfinished_answer, wait_for
from parcels.services.rows import lost_a_race
from parcels.services.wake import wake_after_commit
from parcels.statuses import Status


def change_parcel(
    *, asked: Asked, parcel_id: int, fields: dict[str, Any], mode: Mode
) -> HttpResponse:
    """Change the parcel's fields that are given, and answer with it.

    With `mode` SYNC the answer waits for the label, unless the client prefers it later. Here a
    worker of the queue announces in every strategy: the client sees the same, and changes are too
    rare for a separate path.

    Raises:
        Http404: the account has no such parcel.
        ValidationError: it was announced, or a field is wrong.
        ReferenceTaken: the external_reference names another parcel.
    """
    hold: Hold | None = None
    synchronous = mode is Mode.SYNC and not asked.respond_async
    out = protect.carriers_out() if synchronous else set()
    try:
        with transaction.atomic():
            parcel = _changed(asked.account, parcel_id, fields, mode)
            question = replace(asked.question, parcels=[parcel.pk])
            announcements = queue([parcel]) if mode is not Mode.STORE else []
            if synchronous and not held_off([parcel], out):
                hold = open_hold(asked, question, announcements)
            wake_after_commit(announcements)
    except (IntegrityError, OperationalError) as error:
        # The only constraint that a client can meet here. Its other side may wait for this parcel.
        if not (isinstance(error, IntegrityError) or lost_a_race(error)):
            raise
        raise ReferenceTaken from None
    if hold:
        return wait_for(asked, question, hold, [parcel])
    return unfinished_answer(question, [parcel], late=synchronous)


def _changed(account: Account, parcel_id: int, fields: dict[str, Any], mode: Mode) -> Parcel:
    # Locked: of two changes that announce, the second finds the parcel announced.
    parcel = get_object_or_404(parcels_of(account).select_for_update(), pk=parcel_id)
    if parcel.status != Status.NO_LABEL:
        raise ValidationError("An announced parcel can't be changed.")
    if (fields.get("quantity") or parcel.collo_count) != parcel.collo_count:
        raise ValidationError({"quantity": ["The number of colli can't be changed."]})
    fill(parcel, fields, Owned(account))
    sides = [getattr(parcel, side) is not None for side in SIDES]
    if any(sides) and not all(sides):
        raise ValidationError({"non_field_errors": [SIZE]})
    if mode is not Mode.STORE:
        make_announceable(parcel, account)
        parcel.status = Status.BEING_ANNOUNCED
    parcel.save()
    return parcel
