"""Webhooks: write events, spread them over endpoints, deliver them, try again.

As with announcements the row is the truth and the broker only a wake-up: a delivery is claimed by
a conditional UPDATE with a lease, recorded under its fence, and woken again by the sweeper.
At least once: a worker that dies after sending leaves it to be sent again.
"""

from __future__ import annotations

import logging
import random
import time
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef
from django.utils import timezone

from parcels import metrics
from parcels.models import (
    Account,
    DeliveryState,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from parcels.models.webhook import new_secret
from parcels.services.clock import DatabaseNow
from parcels.services.rooms import Rooms
from parcels.services.wake import send
from parcels.webhooks.addresses import current_policy
from parcels.webhooks.payload import body_of
from parcels.webhooks.post import Answer, post
from parcels.webhooks.signing import signature_headers

log = logging.getLogger(__name__)

QUEUE = "default"
# From the contract: ten tries, 5 minutes, doubled up to an hour.
TRIES = 10
FIRST_DELAY = 300.0
LONGEST_DELAY = 3600.0
# Seconds until the sweeper doubts that a wake-up arrived.
WAKE_AGAIN = 30.0
# Rows per round of the sweeper (a second): more than a worker's room serves in one.
ROWS_AT_ONCE = 200
# Sends at once in one process, and to one endpoint. A receiver that hangs costs its own room; the
# worker's other threads are for carriers. What finds no room is woken again by the sweeper.
ROOMS = Rooms(whole=64, each=8)


def write_event(
    *, account_id: int, parcel_id: int, status: int, at: datetime, carrier: datetime | None = None
) -> None:
    """Write a status change to the outbox, in the caller's transaction, and wake after commit.

    `carrier` is when the carrier says that it happened. Nothing is written where nobody listens.
    """
    if not WebhookEndpoint.objects.filter(account_id=account_id, is_active=True).exists():
        return
    event = WebhookEvent.objects.create(
        account_id=account_id,
        parcel_id=parcel_id,
        status=status,
        date_created=at,
        carrier_changed_at=carrier,
    )
    transaction.on_commit(partial(send, "spread_event", str(event.pk), QUEUE), robust=True)


def spread(event_id: UUID | str) -> int:
    """Make a delivery for each active endpoint; return how many. Doing it twice changes nothing."""
    event = WebhookEvent.objects.filter(pk=event_id, spread_at=None).first()
    if event is None:
        return 0
    endpoints = WebhookEndpoint.objects.filter(account_id=event.account_id, is_active=True)
    with transaction.atomic():
        WebhookDelivery.objects.bulk_create(
            [
                WebhookDelivery(event=event, endpoint=endpoint, wake_at=DatabaseNow(WAKE_AGAIN))
                for endpoint in endpoints
            ],
            ignore_conflicts=True,
        )
        WebhookEvent.objects.filter(pk=event.pk).update(spread_at=timezone.now())
        for pk in WebhookDelivery.objects.filter(event=event).values_list("pk", flat=True):
            transaction.on_commit(partial(send, "deliver", pk, QUEUE), robust=True)
    return len(endpoints)


def deliver(delivery_id: int) -> None:
    """Send a pending delivery that is due; does nothing when it isn't, or somebody else has it."""
    endpoint_id = _endpoint_of(delivery_id)
    if endpoint_id is None:
        return
    with ROOMS.enter(endpoint_id) as entered:
        if entered and (delivery := claim(delivery_id)):
            _send_and_record(delivery)
    connection.close()


def _endpoint_of(delivery_id: int) -> int | None:
    pending = WebhookDelivery.objects.filter(pk=delivery_id, state=DeliveryState.PENDING)
    return pending.values_list("endpoint_id", flat=True).first()


def claim(delivery_id: int) -> WebhookDelivery | None:
    """Take a due delivery for a time that ends by itself; None when somebody else has it.

    Conditions on the row's own columns only: PostgreSQL then checks them again after waiting for
    another claimant's lock.
    """
    free = WebhookDelivery.objects.filter(
        pk=delivery_id, state=DeliveryState.PENDING, run_at__lte=DatabaseNow()
    )
    lease = 3 * settings.WEBHOOK_DEADLINE
    taken = (free.filter(lease_until=None) | free.filter(lease_until__lte=DatabaseNow())).update(
        lease_until=DatabaseNow(lease),
        wake_at=DatabaseNow(lease + 1),
        fence=F("fence") + 1,
        tries=F("tries") + 1,
    )
    if not taken:
        return None
    return WebhookDelivery.objects.select_related("event__parcel", "endpoint").get(pk=delivery_id)


def _send_and_record(delivery: WebhookDelivery) -> None:
    endpoint = delivery.endpoint
    if not endpoint.is_active:
        _give_up(delivery)
        return
    base = settings.PUBLIC_URL or endpoint.base_url
    body = body_of(delivery.event, delivery.event.parcel, base)
    event_id = str(delivery.event_id)
    headers = signature_headers(endpoint.secret, event_id, int(time.time()), body)
    connection.close()  # nobody waits with a database connection in hand
    answer = post(
        endpoint.url, body, headers, policy=current_policy(), deadline=settings.WEBHOOK_DEADLINE
    )
    record(delivery, answer)


def record(delivery: WebhookDelivery, answer: Answer) -> DeliveryState:
    """Write a try down under its fence, and what follows from it."""
    state, delay = next_step(delivery.tries, answer)
    with transaction.atomic():
        WebhookAttempt.objects.create(
            delivery=delivery,
            duration=round(answer.duration, 4),
            status=answer.status,
            error=answer.error,
        )
        WebhookDelivery.objects.filter(pk=delivery.pk, fence=delivery.fence).update(
            state=state,
            lease_until=None,
            run_at=DatabaseNow(delay),
            wake_at=DatabaseNow(delay),
            last_status=answer.status,
            last_error=answer.error,
            delivered_at=timezone.now() if answer.taken else None,
        )
    metrics.webhook_tried(state, answer.duration)
    return state


def next_step(tries: int, answer: Answer) -> tuple[DeliveryState, float]:
    """Return the state after the given number of tries, and in how many seconds it is due."""
    if answer.taken:
        return DeliveryState.DELIVERED, 0.0
    if tries >= TRIES:
        return DeliveryState.FAILED, 0.0
    delay = min(LONGEST_DELAY, FIRST_DELAY * 2 ** (tries - 1))
    # Jitter: an outage of the receiver must not end in all our deliveries at one moment.
    return DeliveryState.PENDING, min(LONGEST_DELAY, delay * random.uniform(0.9, 1.1))


def _give_up(delivery: WebhookDelivery) -> None:
    WebhookDelivery.objects.filter(pk=delivery.pk, fence=delivery.fence).update(
        state=DeliveryState.FAILED, lease_until=None, last_error="the endpoint is switched off"
    )


def send_again(delivery: WebhookDelivery) -> None:
    """Begin a delivery's tries anew, now, whatever became of it."""
    with transaction.atomic():
        WebhookDelivery.objects.filter(pk=delivery.pk).update(
            state=DeliveryState.PENDING,
            tries=0,
            lease_until=None,
            fence=F("fence") + 1,
            run_at=DatabaseNow(),
            wake_at=DatabaseNow(WAKE_AGAIN),
        )
        transaction.on_commit(partial(send, "deliver", delivery.pk, QUEUE), robust=True)
    delivery.refresh_from_db()


def create_endpoint(
    *, account: Account, url: str, secret: str | None, is_active: bool, base_url: str
) -> WebhookEndpoint:
    """Register an address; without a secret of the shop's own it gets a random one."""
    return WebhookEndpoint.objects.create(
        account=account,
        url=url,
        secret=secret or new_secret(),
        is_active=is_active,
        base_url=base_url,
    )


def update_endpoint(
    *, endpoint: WebhookEndpoint, url: str | None, secret: str | None, is_active: bool | None
) -> WebhookEndpoint:
    """Change what is given. Switching it off fails what is still to be delivered."""
    endpoint.url = url or endpoint.url
    endpoint.secret = secret or endpoint.secret
    endpoint.is_active = endpoint.is_active if is_active is None else is_active
    with transaction.atomic():
        endpoint.save()
        if not endpoint.is_active:
            endpoint.deliveries.filter(state=DeliveryState.PENDING).update(
                state=DeliveryState.FAILED, last_error="the endpoint is switched off"
            )
    return endpoint


def spread_forgotten() -> int:
    """Spread events whose wake-up was lost; for the sweeper."""
    before = timezone.now() - timedelta(seconds=5)
    waiting = WebhookEvent.objects.filter(spread_at=None, date_created__lte=before)
    ids = waiting.order_by("date_created").values_list("pk", flat=True)[:ROWS_AT_ONCE]
    return sum(spread(pk) for pk in list(ids))


def due_deliveries() -> list[int]:
    """Return deliveries that are due for a wake-up, and note when they would be next."""
    due = WebhookDelivery.objects.filter(state=DeliveryState.PENDING, wake_at__lte=DatabaseNow())
    ids = list(due.order_by("wake_at").values_list("pk", flat=True)[:ROWS_AT_ONCE])
    due.filter(pk__in=ids).update(wake_at=DatabaseNow(WAKE_AGAIN))
    return ids


def forget_old() -> int:
    """Delete a portion of the events past their keeping, with their deliveries; for the sweeper.

    Returns how many. What is still to be spread or delivered stays, however old.
    """
    before = timezone.now() - timedelta(seconds=settings.WEBHOOK_KEEP)
    pending = WebhookDelivery.objects.filter(event=OuterRef("pk"), state=DeliveryState.PENDING)
    old = WebhookEvent.objects.filter(~Exists(pending), date_created__lt=before)
    with transaction.atomic():
        # Locked, so that two sweepers each take their own and don't wait for each other.
        rows = old.exclude(spread_at=None).select_for_update(skip_locked=True)
        ids = list(rows.order_by("date_created").values_list("pk", flat=True)[:ROWS_AT_ONCE])
        WebhookEvent.objects.filter(pk__in=ids).delete()
    return len(ids)
