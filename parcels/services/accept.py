"""Accept parcels: one transaction writes parcels, announcements and who waits.

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
from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils import timezone
from rest_framework.exceptions import APIException

from parcels.models import Account, Announcement, Parcel
from parcels.services.fill import Owned, check_announceable, fill
from parcels.services.wake import wake_after_commit
from parcels.statuses import Status

# Seconds until the sweeper doubts that the first wake-up arrived.
FIRST_WAKE_UP = 5
# Clients seldom send a weight for a letter; the dialect's peers assume a kilogram.
DEFAULT_WEIGHT = Decimal("1.000")


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
        """Return the SHA-256 of what was asked, as hex."""
        body = json.dumps([self.fields, self.mode.value], sort_keys=True, default=str)
        return hashlib.sha256(body.encode()).hexdigest()


def mode_of(fields: dict[str, Any], *, respond_async: bool) -> Mode:
    """Read how the label is asked for; asynchronous wins where both are."""
    synchronous = any(
        fields.get(name) for name in ("request_label", "requestLabel", "requestShipment")
    )
    if fields.get("request_label_async"):
        return Mode.ASYNC
    if synchronous:
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
    An order whose external_reference is known with the same body yields the existing parcel.

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
        except IntegrityError:
            # Somebody took the external_reference or the idempotency key between our look and our
            # insert; now it shows.
            if attempt == 2:
                raise
    raise AssertionError("unreachable")


def _store(account: Account, orders: Sequence[Order]) -> Accepted:
    known = _known(account, orders)
    owned = Owned(account)
    rows: list[Parcel] = []
    result: list[Parcel] = []
    announced: list[Parcel] = []
    for order in orders:
        reference = order.fields.get("external_reference")
        if reference and reference in known:
            if known[reference].fingerprint != order.fingerprint:
                raise ReferenceTaken
            result += _all_colli(known[reference])
            continue
        colli = _colli(order, owned)
        rows += colli
        result += colli
        if order.mode is not Mode.STORE:
            announced += colli
        if reference:
            known[reference] = colli[0]
    Parcel.objects.bulk_create(rows)
    return Accepted(result, queue(announced))


def _known(account: Account, orders: Sequence[Order]) -> dict[str, Parcel]:
    references = [order.fields.get("external_reference") for order in orders]
    wanted = [reference for reference in references if reference]
    if not wanted:
        return {}
    found = Parcel.objects.filter(account=account, external_reference__in=wanted)
    return {str(parcel.external_reference): parcel for parcel in found}


def _all_colli(first: Parcel) -> list[Parcel]:
    """Return the parcels that were made together with this one, which has their reference."""
    if first.collo_count == 1 or first.pk is None:
        return [first]
    together = Parcel.objects.filter(account=first.account_id, colli_uuid=first.colli_uuid)
    return list(together.order_by("collo_nr"))


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
        check_announceable(parcel)
        parcel.status = Status.BEING_ANNOUNCED
    return parcel
