"""Answer about parcels that are stored: announced here, named by a known key, or waited for.

Announcing here is for strategies whose workers wait; a front that holds clients needs none of it.
"""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from time import monotonic

from django.conf import settings
from django.db import transaction
from django.http import HttpResponse

from parcels import metrics
from parcels.models import Announcement, Hold, IdempotencyKey, Parcel
from parcels.models.announcement import OPEN
from parcels.representation import Question, final_answer
from parcels.selectors import in_order, waiting_announcements
from parcels.services import idempotency, protect
from parcels.services.announce import announce, announce_async
from parcels.services.awaiting import PendingResponse, in_thread, or_late, views_are_coroutines
from parcels.services.holds import Asked, held_off, open_hold, unfinished_answer, wait_for, words_of
from parcels.services.idempotency import MadeAndDeleted
from parcels.services.wake import wake_after_commit
from parcels.statuses import Status

log = logging.getLogger(__name__)

# Calls that one waiting worker makes at once for a batch: a batch of 8 takes as long as one
# parcel, and a batch of 100 doesn't become 100 threads.
CALLS_AT_ONCE = 8
LEFT = "announcement %s is left to the sweeper"


def replay(*, asked: Asked, row: IdempotencyKey) -> HttpResponse:
    """Answer a repeated idempotency key: with what the first request made, or when that ends.

    Raises: MadeAndDeleted: none of its parcels exists any more.
    """
    first, synchronous = idempotency.promised(row)
    parcels = in_order(first.parcels)
    # As long as one is left: its client would take a new key, and buy that label again.
    if first.parcels and not parcels:
        raise MadeAndDeleted
    left = [parcel.pk for parcel in parcels]
    question = replace(first, parcels=left, preferred=asked.question.preferred)
    if not synchronous or asked.respond_async:
        return unfinished_answer(question, parcels)
    if held_off(parcels, protect.carriers_out()):
        return unfinished_answer(question, parcels, late=True)
    return _answer_announced(asked, question)


def answer_parcel(*, asked: Asked, parcel: Parcel) -> HttpResponse:
    """Answer a GET with `wait=N`: when the parcel's announcement ends, or then with what is."""
    question = replace(asked.question, parcels=[parcel.pk])
    if not asked.seconds or parcel.status != Status.BEING_ANNOUNCED:
        return unfinished_answer(question, [parcel])
    hold = None
    if waiting := waiting_announcements([parcel.pk]):
        hold = open_hold(asked, question, waiting)
    if hold and waiting_announcements([parcel.pk]):
        return wait_for(asked, question, hold, [parcel], buys=False)
    parcels = in_order([parcel.pk]) or [parcel]
    return unfinished_answer(question, parcels)


def announce_here(
    asked: Asked,
    question: Question,
    parcels: Sequence[Parcel],
    announcements: Sequence[Announcement],
) -> HttpResponse:
    """Announce in this worker, then wait for what is still open: an unknown, a queued one.

    No call begins that may outlast the client's time: other workers are woken for the rest.
    """
    announcement_ids = [announcement.pk for announcement in announcements]
    late = unfinished_answer(question, parcels, late=True)
    if views_are_coroutines():
        return PendingResponse(lambda: _announce_in_loop(asked, question, announcement_ids), late)
    with metrics.waiting():
        _announce_all(asked, announcement_ids)
    return or_late(partial(_answer_announced, asked, question), late)


async def _announce_in_loop(
    asked: Asked, question: Question, announcement_ids: Sequence[int]
) -> HttpResponse:
    room = asyncio.Semaphore(CALLS_AT_ONCE)

    async def announce_one(announcement_id: int) -> None:
        async with room:
            try:
                if asked.until - monotonic() >= settings.CARRIER_CALL_DEADLINE:
                    await announce_async(announcement_id)
            except Exception:
                log.exception(LEFT, announcement_id)

    with metrics.waiting():
        await asyncio.gather(*map(announce_one, announcement_ids))
    return await in_thread(_answer_announced, asked, question)


def _answer_announced(asked: Asked, question: Question) -> HttpResponse:
    """Answer, or wait for what has not ended yet."""
    with transaction.atomic():
        waiting = waiting_announcements(question.parcels)
        hold = None
        if waiting:
            wake_after_commit(waiting)
            hold = open_hold(asked, question, waiting)
    if hold and waiting_announcements(question.parcels):
        return wait_for(asked, question, hold, in_order(question.parcels))
    return final_answer(question, in_order(question.parcels))


def _announce_all(asked: Asked, announcement_ids: Sequence[int]) -> None:
    if len(announcement_ids) == 1:
        _announce_one(asked, announcement_ids[0])
        return
    try:
        with ThreadPoolExecutor(CALLS_AT_ONCE) as pool:
            list(pool.map(partial(_announce_one, asked), announcement_ids))
    except RuntimeError:  # no thread can be started: the answer wakes others for what is left
        log.exception(LEFT, announcement_ids)


def _announce_one(asked: Asked, announcement_id: int) -> None:
    try:
        if asked.until - monotonic() >= settings.CARRIER_CALL_DEADLINE:
            announce(announcement_id)
    except Exception:  # it is stored: the sweeper goes on with it, also after a purchase
        log.exception(LEFT, announcement_id)


def resolve(hold_ids: list[str], *, final_only: bool = True) -> dict[str, HttpResponse]:
    """Return the answers of those holds that have one: what `offload` asks when in doubt.

    With `final_only=False` also what those get whose time is over.
    """
    asked = Hold.objects.filter(pk__in=hold_ids)
    answers = words_of(asked.exclude(announcements__state__in=OPEN), final_answer)
    if not final_only:
        answers |= words_of(
            asked.exclude(pk__in=list(answers)), partial(unfinished_answer, late=True)
        )
    return answers
