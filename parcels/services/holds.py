"""Who waits, and telling them."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta

from django.db import transaction
from django.http import HttpResponse
from django.utils import timezone

import offload
from parcels.answers import Question, final_answer, late_answer
from parcels.models import Account, Announcement, Hold, Parcel
from parcels.models.announcement import OPEN
from parcels.selectors import in_order, open_holds
from parcels.services.patience import retry_after

log = logging.getLogger(__name__)


def open_hold(
    *, account: Account, question: Question, announcements: Sequence[Announcement], wait: float
) -> Hold:
    """Write down who waits for what, for at most `wait` seconds.

    Call it in the transaction that writes the announcements, or look afterwards whether they have
    ended meanwhile: an outcome that was recorded before finds no hold.
    """
    with transaction.atomic():
        hold = Hold.objects.create(
            id=uuid.uuid4().hex,
            account=account,
            question=question.to_json(),
            deadline_at=timezone.now() + timedelta(seconds=wait),
        )
        # Not add(): a new hold has none that would have to be looked for first.
        Waiting = Hold.announcements.through
        Waiting.objects.bulk_create(
            Waiting(hold=hold, announcement=announcement) for announcement in announcements
        )
    return hold


def release_holds(announcement_id: int) -> None:
    """Answer each client that waited for this announcement as its last one. Call after commit."""
    for hold in open_holds(announcement_id):
        release_hold(hold)


def release_hold(hold: Hold) -> bool:
    """Answer the hold's client; False when the wake-up could not be sent.

    The row stays open then, and the sweeper says it again.
    """
    answer = _word(hold, final_answer)
    if answer is not None and not offload.release(hold.pk, answer):
        return False
    Hold.objects.filter(pk=hold.pk).update(released_at=timezone.now())
    return True


def resolve(hold_ids: list[str], *, final_only: bool = True) -> dict[str, HttpResponse]:
    """Return the answers of those holds that have one: what `offload` asks when in doubt.

    With `final_only=False` also what those get whose time is over.
    """
    asked = Hold.objects.filter(pk__in=hold_ids)
    answers = {
        hold.pk: _word(hold, final_answer) for hold in asked.exclude(announcements__state__in=OPEN)
    }
    if not final_only:
        rest = asked.exclude(pk__in=list(answers))
        answers |= {hold.pk: _word(hold, _late) for hold in rest}
    return {hold_id: answer for hold_id, answer in answers.items() if answer is not None}


def _word(
    hold: Hold, wording: Callable[[Question, Sequence[Parcel]], HttpResponse]
) -> HttpResponse | None:
    """Return the hold's answer; None when one of its parcels was deleted meanwhile."""
    question = Question.from_json(hold.question)
    parcels = in_order(question.parcels)
    return wording(question, parcels) if len(parcels) == len(question.parcels) else None


def _late(question: Question, parcels: Sequence[Parcel]) -> HttpResponse:
    return late_answer(question, parcels, retry_after(parcels))
