"""Accept parcels: one transaction writes parcels, announcements and holds.

After the commit a best-effort wake-up. The request never fails because the broker is down.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

from django.conf import settings
from django.db import IntegrityError, OperationalError, transaction
from django.db.models.functions import Now
from django.utils import timezone
from rest_framework.exceptions import APIException

from parcels.models import Account, Announcement, Parcel
from parcels.services.announceable import make_announceable
from parcels.services.fill import Owned, fill
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
# PostgreSQL's serialization_failure and deadlock_detected: the transaction may be run again.
LOST_RACES = ("40001", "40P01")


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
    """One validated parcel as it was asked for; `fields` are `ParcelIn`'s."""

    fields: dict[str, Any]
    mode: Mode

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 of what the parcel is made of, as hex."""
        how = (*LABEL_NOW, LABEL_LATER)
        made_of = {name: value for name, value in self.fields.items() if name not in how}
        body = json.dumps(made_of, sort_keys=True, default=str)
        return hashlib.sha256(body.encode()).hexdigest()


def mode_of(fields: dict[str, Any], *, respond_async: bool) -> Mode:
    """Read how the label is asked for; asynchronous wins where both are."""
    if fields.get(LABEL_LATER):
        return Mode.ASYNC
    if any(fields.get(name) for name in LABEL_NOW):
        return Mode.ASYNC if respond_async else Mode.SYNC
    return Mode.STORE


@dataclass(slots=True)
class Accepted:
    """What was stored. `announcements` are the new ones."""

    parcels: list[Parcel]
    announcements: list[Announcement]


def accept(
    *,
    account: Account,
    orders: Sequence[Order],
    first: Callable[[], None] | None = None,
    inside: Callable[[Accepted], None] | None = None,
    wake: bool = True,
) -> Accepted:
    """Store the orders and queue their announcements.

    `first` runs before, `inside` after them in the same transaction: a hold's row must be there
    before any outcome.
    An order whose external_reference is known with the same body yields the existing parcel, and
    announces it if its label is asked for now and was not before.

    Raises:
        ValidationError: an order can't be announced as it is; nothing is stored.
        ReferenceTaken: an external_reference is known with another body; nothing is stored.
    """
    for attempt in range(3):
        try:
            with transaction.atomic():
                if first:
                    first()
                accepted = _store(account, orders)
                if inside:
                    inside(accepted)
                if wake:
                    wake_after_commit(accepted.announcements)
            return accepted
        except (IntegrityError, OperationalError) as error:
            # Another request took the external_reference or the idempotency key between our read
            # and our insert; now we can see it. Or two batches waited for each other.
            if attempt == 2 or not (lost_a_race(error) or isinstance(error, IntegrityError)):
                raise
    raise AssertionError("unreachable")


def lost_a_race(error: Exception) -> bool:
    """Tell whether a transaction that failed may be run again as it was."""
    return getattr(error.__cause__, "sqlstate", None) in LOST_RACES


def _store(account: Account, orders: Sequence[Order]) -> Accepted:
    known = _known(account, orders)
    owned = Owned(account)
    new: list[list[Parcel]] = []
    result: list[Parcel] = []
    announced: list[Parcel] = []
    for order in orders:
        reference = order.fields.get("external_reference") or ""
        colli = known.get(reference)
        if colli is None:
            colli = _colli(order, owned)
            new.append(colli)
            if reference:
                known[reference] = colli
        elif colli[0].fingerprint != order.fingerprint:
            raise ReferenceTaken
        result += colli
        if order.mode is not Mode.STORE:
            announced += _begin(colli, account)
    # Each batch in one order: two that overlap must not wait for each other's references.
    new.sort(key=lambda colli: colli[0].external_reference or "")
    Parcel.objects.bulk_create(parcel for colli in new for parcel in colli)
    return Accepted(result, queue(announced))


def _known(account: Account, orders: Sequence[Order]) -> dict[str, list[Parcel]]:
    """Return the colli by reference, locked: of two requests, the second finds them announced."""
    references = [order.fields.get("external_reference") for order in orders]
    wanted = [reference for reference in references if reference]
    if not wanted:
        return {}
    parcels = Parcel.objects.filter(account=account).select_for_update(no_key=True)
    return {
        str(first.external_reference): [first]
        if first.collo_count == 1
        else list(parcels.filter(colli_uuid=first.colli_uuid).order_by("collo_nr"))
        for first in parcels.filter(external_reference__in=wanted).order_by("pk")
    }


def _begin(parcels: Sequence[Parcel], account: Account) -> list[Parcel]:
    """Have those announced that were not yet; return them."""
    begun = [parcel for parcel in parcels if parcel.status == Status.NO_LABEL]
    for parcel in begun:
        make_announceable(parcel, account)
        parcel.status = Status.BEING_ANNOUNCED
        if parcel.pk:
            parcel.save(update_fields=BEGUN)
    return begun


def queue(parcels: Sequence[Parcel]) -> list[Announcement]:
    """Write a pending announcement for each parcel, whose status is 1001 already."""
    if not parcels:
        return []
    deadline = timezone.now() + timedelta(seconds=settings.ANNOUNCEMENT_MAX_AGE)
    return Announcement.objects.bulk_create(
        Announcement(
            account_id=parcel.account_id,
            parcel=parcel,
            carrier=parcel.carrier,
            wake_at=Now() + timedelta(seconds=FIRST_WAKE_UP),
            deadline_at=deadline,
        )
        for parcel in parcels
    )


def _colli(order: Order, owned: Owned) -> list[Parcel]:
    count = order.fields.get("quantity") or 1
    colli_uuid = uuid.uuid4()
    parcels = [parcel_row(order, owned) for _ in range(count)]
    for number, parcel in enumerate(parcels):
        parcel.colli_uuid, parcel.collo_nr, parcel.collo_count = colli_uuid, number, count
        if number:  # the reference names the first: it is unique
            parcel.external_reference = None
    return parcels


def parcel_row(order: Order, owned: Owned) -> Parcel:
    """Return an unsaved parcel of the account that `owned` is about.

    Raises:
        ValidationError: its label is asked for and something for that is missing or wrong.
    """
    parcel = Parcel(account=owned.account, fingerprint=order.fingerprint, weight=DEFAULT_WEIGHT)
    fill(parcel, order.fields, owned)
    if order.mode is not Mode.STORE:
        make_announceable(parcel, owned.account)
    return parcel
