"""Accept parcels: one transaction writes parcels, announcements and holds; then the answer.

After the commit a best-effort wake-up. The request never fails because the broker is down.

All strategies use this. If a front holds clients, the answer is `offload.hold` and the worker is
free. If not, this worker announces by itself and waits for the rest.
"""

import hashlib
import json
import uuid
from collections.abc import Sequence, Set
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from time import monotonic
from typing import Any

from django.conf import settings
from django.db import IntegrityError, OperationalError, transaction
from django.http import HttpResponse
from django.utils import timezone
from rest_framework.exceptions import APIException

import offload
from parcels.models import Account, Announcement, Hold, Parcel
from parcels.representation import Question, final_answer
from parcels.selectors import Owned, colli_by_reference, waiting_announcements
from parcels.services import idempotency, protect
from parcels.services.answering import announce_here, replay
from parcels.services.clock import now_sql
from parcels.services.fill import fill, make_announceable
from parcels.services.holds import Asked, held_off, open_hold, unfinished_answer, wait_for
from parcels.services.rows import insert, lost_a_race
from parcels.services.waits import thread_to_wait
from parcels.services.wake import wake_after_commit
from parcels.statuses import Status

# Seconds until the sweeper doubts that the first wake-up arrived.
FIRST_WAKE_UP = 5
# Clients seldom send a weight for a letter; the dialect's peers assume a kilogram.
DEFAULT_WEIGHT = Decimal("1.000")
# How the label is asked for; it doesn't make a different parcel.
LABEL_NOW = ("request_label", "requestLabel", "requestShipment")
LABEL_LATER = "request_label_async"
# What an announcement that begins changes of a stored parcel.
BEGUN = ("status", "from_address", "sender_address", "date_updated")


class Mode(Enum):
    """How a parcel's label is asked for."""

    STORE = "store"  # not at all: status 999
    SYNC = "sync"  # in the answer
    ASYNC = "async"  # the client looks again


class ReferenceTaken(APIException):
    status_code = 409
    default_detail = "external_reference: 'It names another parcel of yours.'"


@dataclass(frozen=True, slots=True)
class Order:
    """One validated parcel as it was asked for; `fields` are `ParcelIn`'s.

    `mode` is the body's. `fingerprint` is the SHA-256 of what the parcel is made of, as hex.
    """

    fields: dict[str, Any]
    mode: Mode
    fingerprint: str = ""
    colli: int = 1


def order_of(fields: dict[str, Any]) -> Order:
    """Read how the label is asked for; asynchronous wins where both are."""
    mode = Mode.STORE
    if fields.get(LABEL_LATER):
        mode = Mode.ASYNC
    elif any(fields.get(name) for name in LABEL_NOW):
        mode = Mode.SYNC
    how = (*LABEL_NOW, LABEL_LATER)
    made_of = {name: value for name, value in fields.items() if name not in how}
    body = json.dumps(made_of, sort_keys=True, default=str)
    fingerprint = hashlib.sha256(body.encode()).hexdigest()
    return Order(fields, mode, fingerprint, colli=fields.get("quantity") or 1)


def create_parcels(
    *,
    asked: Asked,
    orders: Sequence[Order],
    failed: Sequence[dict[str, object]],
    key: idempotency.Key | None = None,
) -> HttpResponse:
    """Store the orders, queue their announcements and answer: at once, or with the last label.

    `failed` are the invalid ones of a batch with errors=verbose, for the answer. With a `key` that
    has made its parcels already nothing is stored, and the answer is about those.

    Raises:
        ValidationError, ReferenceTaken: see `accept`.
        KeyReused: see `idempotency.take`.
    """
    synchronous = not asked.respond_async and any(each.mode is Mode.SYNC for each in orders)
    out = protect.carriers_out() if synchronous else set()
    waits = synchronous and not offload.holds_clients()
    with thread_to_wait(asked.account.pk, buys=True) if waits else nullcontext(False) as free:
        # Without a thread to wait in: queued, and 202 at once. If the client waits for less time
        # than a call may take, this worker must not call: a call that was sent can't be cut short.
        here = free and asked.until - monotonic() >= settings.CARRIER_CALL_DEADLINE
        try:
            parcels, announcements, question, hold = accept(
                asked, orders, failed, key, out=out, holds=synchronous and not here, wakes=not here
            )
        except idempotency.KeyKnown as known:
            return replay(asked=asked, row=known.row)
        if not synchronous:
            return unfinished_answer(question, parcels)
        if (out and held_off(parcels, out)) or (hold and waits and not free):
            return unfinished_answer(question, parcels, late=True)
        if here:
            return announce_here(asked, question, parcels, announcements)
        if hold is None:
            return final_answer(question, parcels)
        return wait_for(asked, question, hold, parcels)


def accept(
    asked: Asked,
    orders: Sequence[Order],
    failed: Sequence[dict[str, object]] = (),
    key: idempotency.Key | None = None,
    *,
    out: Set[str] = frozenset(),
    holds: bool = False,
    wakes: bool = True,
) -> tuple[list[Parcel], list[Announcement], Question, Hold | None]:
    """Store the orders and queue their announcements.

    Return the parcels, the new announcements, the question and the hold.

    In the same transaction as the `key`'s row, which comes first, and with `holds` a hold for what
    a synchronous answer waits for, unless its carrier is `out`: the hold must be there before any
    outcome.

    An order whose external_reference is known with the same body yields the existing parcel, and
    announces it if its label is asked for now and was not before.

    Raises:
        ValidationError: an order can't be announced as it is; nothing is stored.
        ReferenceTaken: an external_reference is known with another body; nothing is stored.
        KeyKnown, KeyReused: see `idempotency.take`.
    """
    account = asked.account
    for left in reversed(range(len(orders) + 2)):
        try:
            with transaction.atomic():
                row = idempotency.take(account, key) if key else None
                parcels, announcements = _store(account, orders)
                ids = [parcel.pk for parcel in parcels]
                question = replace(asked.question, parcels=ids, failed=list(failed))
                hold = None
                if holds and not (out and held_off(parcels, out)):
                    # New announcements, and old ones joined.
                    new = {announcement.parcel_id for announcement in announcements}
                    old = [parcel.pk for parcel in parcels if parcel.pk not in new]
                    if awaited := announcements + (waiting_announcements(old) if old else []):
                        hold = open_hold(asked, question, awaited)
                if row is not None:  # a label in the answer, were it not for this request's Prefer
                    synchronous = any(order.mode is Mode.SYNC for order in orders)
                    idempotency.fulfil(row, question, synchronous=synchronous)
                if wakes or (out and held_off(parcels, out)):  # this worker calls none then
                    wake_after_commit(announcements)
            return parcels, announcements, question, hold
        except (IntegrityError, OperationalError) as error:
            # Another request took an external_reference or the idempotency key between our read and
            # our insert: we see it now, so each is lost once. Or two batches waited for each other.
            if left == 0 or not (lost_a_race(error) or isinstance(error, IntegrityError)):
                raise
    raise AssertionError("unreachable")


def _store(account: Account, orders: Sequence[Order]) -> tuple[list[Parcel], list[Announcement]]:
    references = [order.fields.get("external_reference") for order in orders]
    wanted = [reference for reference in references if reference]
    known = colli_by_reference(account, wanted, locked=True) if wanted else {}
    owned = Owned(account)
    new: list[list[Parcel]] = []
    result: list[Parcel] = []
    announced: list[Parcel] = []
    for order, reference in zip(orders, references, strict=True):
        colli = known.get(reference or "")
        if colli is None:
            colli = new_colli(order, owned)
            new.append(colli)
            if reference:
                known[reference] = colli
        elif colli[0].fingerprint != order.fingerprint:
            raise ReferenceTaken
        result += colli
        if order.mode is not Mode.STORE:
            begun = [parcel for parcel in colli if parcel.status == Status.NO_LABEL]
            for parcel in begun:
                make_announceable(parcel, account)
                parcel.status = Status.BEING_ANNOUNCED
                if parcel.pk:
                    parcel.save(update_fields=BEGUN)
            announced += begun
    # Each batch in one order: two that overlap must not wait for each other's references.
    new.sort(key=lambda colli: colli[0].external_reference or "")
    insert([parcel for colli in new for parcel in colli])
    return result, queue(announced)


def new_colli(order: Order, owned: Owned) -> list[Parcel]:
    """Return the order's parcels, unsaved, of the account that `owned` is about.

    Raises:
        ValidationError: see `fill`.
    """
    colli = []
    colli_uuid = uuid.uuid4()
    for number in range(order.colli):
        parcel = Parcel(
            account=owned.account,
            fingerprint=order.fingerprint,
            weight=DEFAULT_WEIGHT,
            colli_uuid=colli_uuid,
            collo_nr=number,
            collo_count=order.colli,
        )
        fill(parcel, order.fields, owned)
        if number:  # the reference names the first: it is unique
            parcel.external_reference = None
        colli.append(parcel)
    return colli


def queue(parcels: Sequence[Parcel]) -> list[Announcement]:
    """Write a pending announcement for each parcel, whose status is 1001 already."""
    deadline = timezone.now() + timedelta(seconds=settings.ANNOUNCEMENT_MAX_AGE)
    announcements = [
        Announcement(
            account_id=parcel.account_id,
            parcel=parcel,
            carrier=parcel.carrier,
            deadline_at=deadline,
        )
        for parcel in parcels
    ]
    insert(announcements, run_at=now_sql(), wake_at=now_sql(str(FIRST_WAKE_UP)))
    return announcements
