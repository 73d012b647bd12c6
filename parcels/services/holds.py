"""Waiting clients, and answering them."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from django.db import transaction
from django.http import HttpResponse
from django.utils import timezone

import offload
from parcels.answers import Question, final_answer, late_answer
from parcels.models import Account, Announcement, Hold, Parcel
from parcels.models.announcement import OPEN
from parcels.services.protect import retry_after

log = logging.getLogger(__name__)


def open_hold(
    *, account: Account, question: Question, announcements: Sequence[Announcement], wait: float
) -> Hold:
    """Store which announcements a client waits for, for at most `wait` seconds.

    Call it in the transaction that writes the announcements, or check afterwards whether they have
    ended: an outcome that was recorded earlier finds no hold.
    """
    with transaction.atomic(savepoint=False):
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


def release_holds(announcement_ids: Sequence[int], known: Iterable[Parcel] = ()) -> None:
    """Answer each client that waited for one of these as its last one. Call after commit.

    `known` are parcels as they are now: they are not read again.
    """
    release(_settled(announcement_ids), known)


def _settled(announcement_ids: Sequence[int]) -> list[Hold]:
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


def release(holds: Sequence[Hold], known: Iterable[Parcel] = ()) -> int:
    """Answer the holds' clients; return how many rows are settled.

    The others stay open, and the sweeper tries again.
    """
    if not holds or not offload.release_many(_words(holds, final_answer, known)):
        return 0
    return Hold.objects.filter(pk__in=[hold.pk for hold in holds]).update(
        released_at=timezone.now()
    )


def resolve(hold_ids: list[str], *, final_only: bool = True) -> dict[str, HttpResponse]:
    """Return the answers of those holds that have one: what `offload` asks when in doubt.

    With `final_only=False` also what those get whose time is over.
    """
    asked = Hold.objects.filter(pk__in=hold_ids)
    answers = _words(asked.exclude(announcements__state__in=OPEN), final_answer)
    if not final_only:
        answers |= _words(asked.exclude(pk__in=list(answers)), _late)
    return answers


def _words(
    holds: Iterable[Hold],
    wording: Callable[[Question, Sequence[Parcel]], HttpResponse],
    known: Iterable[Parcel] = (),
) -> dict[str, HttpResponse]:
    """Return the holds' answers; none for one whose parcel was deleted meanwhile."""
    questions = {hold.pk: Question.from_json(hold.question) for hold in holds}
    parcels = {parcel.pk: parcel for parcel in known}
    missing = {pk for each in questions.values() for pk in each.parcels} - parcels.keys()
    if missing:
        parcels |= Parcel.objects.in_bulk(missing)
    return {
        hold_id: wording(question, [parcels[pk] for pk in question.parcels])
        for hold_id, question in questions.items()
        if parcels.keys() >= set(question.parcels)
    }


def _late(question: Question, parcels: Sequence[Parcel]) -> HttpResponse:
    return late_answer(question, parcels, retry_after(parcels))
