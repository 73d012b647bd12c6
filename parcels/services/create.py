"""Create parcels, and answer: at once, or when the last label is there.

Both kinds of strategy use this. If a front holds clients, the answer is `offload.hold` and the
worker is free. If not, this worker announces by itself and waits for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.http import HttpResponse

import offload
from parcels.answers import final_answer, late_answer, unfinished_answer
from parcels.models import Hold, IdempotencyKey
from parcels.selectors import waiting_announcements
from parcels.services import idempotency, protect
from parcels.services.accept import Accepted, Mode, Order, accept, mode_of
from parcels.services.answering import announce_here, replay
from parcels.services.holds import Asked, held_off, open_hold, wait_for
from parcels.services.idempotency import Key, KeyKnown
from parcels.services.protect import retry_after
from parcels.services.waits import thread_to_wait


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
        # New announcements, and old ones joined.
        new = {announcement.parcel_id for announcement in accepted.announcements}
        old = [parcel.pk for parcel in accepted.parcels if parcel.pk not in new]
        awaited = accepted.announcements + (waiting_announcements(old) if old else [])
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
        return announce_here(asked, question, accepted)
    if intake.hold is None:
        return final_answer(question, accepted.parcels)
    return wait_for(asked, question, intake.hold, accepted.parcels)
