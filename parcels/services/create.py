"""Create parcels, and answer: at once, or when the last label is there.

Both kinds of strategy use this. If a front holds clients, the answer is `offload.hold` and the
worker is free. If not, this worker announces by itself and waits for the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from time import monotonic

from django.conf import settings
from django.db import connection, transaction
from django.http import HttpResponse

import offload
from parcels import metrics
from parcels.answers import Question, final_answer, late_answer, unfinished_answer
from parcels.models import Account, Announcement, Hold, IdempotencyKey, Parcel
from parcels.selectors import in_order, waiting_announcements
from parcels.services import idempotency, protect
from parcels.services.accept import Accepted, Mode, Order, accept, mode_of
from parcels.services.announce import announce
from parcels.services.announcer import announcer
from parcels.services.awaiting import PendingResponse, in_thread, views_are_coroutines
from parcels.services.holds import open_hold
from parcels.services.idempotency import Key, KeyKnown, MadeAndDeleted
from parcels.services.protect import retry_after
from parcels.services.waits import thread_to_wait
from parcels.services.wake import wake_after_commit
from parcels.statuses import Status

# Calls that one waiting worker makes at once for a batch: a batch of 8 takes as long as one
# parcel, and a batch of 100 doesn't become 100 threads.
CALLS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Asked:
    """How the client asked. `wait` in seconds, None where it didn't say; see `Question`.

    `asked_at` by the monotonic clock: when the request was there.
    """

    account: Account
    base: str
    path: str
    many: bool = False
    errors: str = ""
    wait: float | None = None
    asked_at: float = field(default_factory=monotonic, compare=False)

    def question(self, parcels: Sequence[Parcel], failed: list[dict[str, object]]) -> Question:
        """Return what the answer's wording depends on."""
        return Question(
            parcels=[parcel.pk for parcel in parcels],
            base=self.base,
            path=self.path,
            many=self.many,
            errors=self.errors,  # type: ignore[arg-type] # checked by the view
            preferred="" if self.wait is None else f"wait={self.seconds:.0f}",
            failed=failed,
        )

    @property
    def seconds(self) -> float:
        """Return how long to wait at most."""
        wanted = settings.WAIT_DEFAULT if self.wait is None else self.wait
        return float(min(wanted, settings.WAIT_MAXIMUM))

    @property
    def left(self) -> float:
        """Return how much of that is left: a slow store takes part of it."""
        return max(self.seconds - (monotonic() - self.asked_at), 0.0)


def create_parcels(
    *,
    asked: Asked,
    orders: Sequence[Order],
    failed: list[dict[str, object]],
    key: Key | None = None,
) -> HttpResponse:
    """Store the orders, queue their announcements and answer.

    `failed` are the invalid ones of a batch with errors=verbose, for the answer. With a `key` that
    has made its parcels already nothing is stored, and the answer is about those.

    Raises:
        ValidationError, ReferenceTaken: see `accept`.
        KeyReused: see `idempotency.take`.
    """
    synchronous = any(order.mode is Mode.SYNC for order in orders)
    intake = _Intake(
        asked=asked,
        failed=failed,
        key=key,
        promises=any(mode_of(order.fields, respond_async=False) is Mode.SYNC for order in orders),
        synchronous=synchronous,
        announces_here=False,
        out=protect.carriers_out() if synchronous else set(),
    )
    if not synchronous or offload.holds_clients():
        return _create(intake, orders)
    with thread_to_wait(asked.account.pk, buys=True) as free:
        # Without a thread to wait in: queued, and 202 at once. If the client waits for less time
        # than a call may take, this worker must not call: a call that was sent can't be cut short.
        intake.announces_here = free and asked.seconds >= settings.CARRIER_CALL_DEADLINE
        return _create(intake, orders)


def _create(intake: _Intake, orders: Sequence[Order]) -> HttpResponse:
    asked = intake.asked
    try:
        accepted = accept(
            account=asked.account,
            orders=orders,
            first=intake.take_key,
            inside=intake.note_who_waits,
            wake=not intake.announces_here,
        )
    except KeyKnown as known:
        return replay(asked=asked, row=known.row, respond_async=not intake.synchronous)
    return _answer_accepted(intake, accepted)


@dataclass(slots=True)
class _Intake:
    """What is written in one transaction with the parcels: the key's row, and the hold."""

    asked: Asked
    failed: list[dict[str, object]]
    key: Key | None
    promises: bool  # a label in the answer, were it not for this request's Prefer
    synchronous: bool
    announces_here: bool
    out: set[str]  # carriers whose breaker was open just before
    row: IdempotencyKey | None = None
    hold: Hold | None = None

    def take_key(self) -> None:
        """Write the key's row first; again after a lost race, whose rows are rolled back."""
        self.hold = None
        self.row = idempotency.take(self.asked.account, self.key) if self.key else None

    def note_who_waits(self, accepted: Accepted) -> None:
        """Record the key's result, and open a hold for what a synchronous answer waits for."""
        question = self.asked.question(accepted.parcels, self.failed)
        if self.row is not None:
            idempotency.fulfil(self.row, question, synchronous=self.promises)
        if not self.synchronous or self.announces_here:
            return
        awaited = _awaited(accepted)
        if awaited and not held_off(accepted.parcels, self.out):
            self.hold = open_hold(
                account=self.asked.account,
                question=question,
                announcements=awaited,
                wait=self.asked.left,
            )


def _answer_accepted(intake: _Intake, accepted: Accepted) -> HttpResponse:
    asked = intake.asked
    question = asked.question(accepted.parcels, intake.failed)
    if not intake.synchronous:
        return unfinished_answer(question, accepted.parcels, retry_after(accepted.parcels))
    if held_off(accepted.parcels, intake.out):
        return late_answer(question, accepted.parcels, retry_after(accepted.parcels))
    if intake.announces_here:
        return _announce_here(asked, question, accepted)
    if intake.hold is None:
        return final_answer(question, accepted.parcels)
    return wait_for(asked, question, intake.hold, accepted.parcels)


def replay(*, asked: Asked, row: IdempotencyKey, respond_async: bool) -> HttpResponse:
    """Answer a repeated idempotency key: with what the first request made, or when that ends.

    Raises: MadeAndDeleted: its parcels no longer exist.
    """
    first, synchronous = idempotency.promised(row)
    question = replace(first, preferred=asked.question([], []).preferred)
    parcels = in_order(question.parcels)
    if len(parcels) < len(question.parcels):
        raise MadeAndDeleted
    if not synchronous or respond_async:
        return unfinished_answer(question, parcels, retry_after(parcels))
    if held_off(parcels, protect.carriers_out()):
        return late_answer(question, parcels, retry_after(parcels))
    return _answer_announced(asked, question, asked.asked_at + asked.seconds)


def held_off(parcels: Sequence[Parcel], out: set[str]) -> bool:
    """Tell whether a label can't come now, because a carrier's breaker is open.

    Then the client doesn't wait: stored, 202, announced later.
    """
    carriers = {parcel.carrier for parcel in parcels if parcel.status == Status.BEING_ANNOUNCED}
    return not out.isdisjoint(carriers)


def answer_parcel(*, asked: Asked, parcel: Parcel) -> HttpResponse:
    """Answer a GET with `wait=N`: when the parcel's announcement ends, or then with what is."""
    question = asked.question([parcel], [])
    if not asked.seconds or parcel.status != Status.BEING_ANNOUNCED:
        return unfinished_answer(question, [parcel], retry_after([parcel]))
    hold = None
    if waiting := waiting_announcements([parcel.pk]):
        hold = open_hold(
            account=asked.account, question=question, announcements=waiting, wait=asked.left
        )
    if hold and waiting_announcements([parcel.pk]):
        return wait_for(asked, question, hold, [parcel], buys=False)
    parcels = in_order([parcel.pk]) or [parcel]
    return unfinished_answer(question, parcels, retry_after(parcels))


def wait_for(
    asked: Asked, question: Question, hold: Hold, parcels: Sequence[Parcel], *, buys: bool = True
) -> HttpResponse:
    """Wait for the hold's answer: at the front where there is one, else in this worker.

    Where the account has its share of this worker's threads, the late answer comes at once.
    """
    late = late_answer(question, parcels, retry_after(parcels))
    if not asked.seconds:
        return late
    if offload.holds_clients():
        return offload.hold(hold.pk, late=late, wait=asked.left, account=str(asked.account.pk))
    if views_are_coroutines():
        return PendingResponse(lambda: _wait_in_loop(asked, question, hold))
    connection.close()  # no database connection is held while waiting
    with thread_to_wait(asked.account.pk, buys=buys) as free:
        if not free:
            return late
        with metrics.waiting():
            answer = offload.wait(hold.pk, asked.left)
    return _late(question) if answer is None else answer


async def _wait_in_loop(asked: Asked, question: Question, hold: Hold) -> HttpResponse:
    with metrics.waiting():
        answer = await offload.wait_async(hold.pk, asked.left)
    return await in_thread(_late, question) if answer is None else answer


def _late(question: Question) -> HttpResponse:
    parcels = in_order(question.parcels)
    return late_answer(question, parcels, retry_after(parcels))


def _awaited(accepted: Accepted) -> list[Announcement]:
    """Return what a synchronous answer waits for: new announcements, and old ones joined."""
    new = {announcement.parcel_id for announcement in accepted.announcements}
    old = [parcel.pk for parcel in accepted.parcels if parcel.pk not in new]
    return accepted.announcements + (waiting_announcements(old) if old else [])


def _announce_here(asked: Asked, question: Question, accepted: Accepted) -> HttpResponse:
    """Announce in this worker, then wait for what is still open: an unknown, a queued one."""
    end = asked.asked_at + asked.seconds
    announcement_ids = [announcement.pk for announcement in accepted.announcements]
    if views_are_coroutines():
        return PendingResponse(lambda: _announce_in_loop(asked, question, announcement_ids, end))
    with metrics.waiting():
        _announce_all(announcement_ids)
    return _answer_announced(asked, question, end)


async def _announce_in_loop(
    asked: Asked, question: Question, announcement_ids: Sequence[int], end: float
) -> HttpResponse:
    room = asyncio.Semaphore(CALLS_AT_ONCE)

    async def announce_one(announcement_id: int) -> None:
        async with room:
            await announcer().announce(announcement_id)

    with metrics.waiting():
        await asyncio.gather(*map(announce_one, announcement_ids))
    return await in_thread(_answer_announced, asked, question, end)


def _answer_announced(asked: Asked, question: Question, end: float) -> HttpResponse:
    """Answer, or wait until `end` (monotonic) for what has not ended yet."""
    with transaction.atomic():
        waiting = waiting_announcements(question.parcels)
        left = max(end - monotonic(), 0)
        hold = None
        if waiting:
            wake_after_commit(waiting)
            hold = open_hold(
                account=asked.account, question=question, announcements=waiting, wait=left
            )
    if hold and waiting_announcements(question.parcels):
        rest = Asked(asked.account, asked.base, asked.path, asked.many, asked.errors, left)
        return wait_for(rest, question, hold, in_order(question.parcels))
    return final_answer(question, in_order(question.parcels))


def _announce_all(announcement_ids: Sequence[int]) -> None:
    if len(announcement_ids) == 1:
        announce(announcement_ids[0])
        return
    with ThreadPoolExecutor(CALLS_AT_ONCE) as pool:
        list(pool.map(announce, announcement_ids))
