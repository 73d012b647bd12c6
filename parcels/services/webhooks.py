"""Webhooks: make deliveries of events for the endpoints, send them, try again.

As with announcements the row is the source of truth and the broker only a wake-up: a delivery is
claimed by a conditional UPDATE with a lease, recorded under its fence, and woken again by the
sweeper. At least once: a worker that dies after sending leaves it to be sent again, as one of its
tries.

An endpoint that fails is tried by one delivery at a time, with a growing delay; its others stay as
they are until it works, so that however many there are, they cost nothing.
"""

import logging
import random
import time
from collections import Counter, defaultdict, deque
from contextlib import ExitStack, suppress
from datetime import timedelta
from functools import partial
from itertools import zip_longest
from threading import BoundedSemaphore
from uuid import UUID

from cryptography.fernet import InvalidToken
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connection, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils import timezone
from rest_framework.exceptions import ValidationError

from parcels import limits, metrics
from parcels.models import (
    Account,
    DeliveryState,
    Integration,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from parcels.models.webhook import new_secret
from parcels.services.clock import DatabaseNow, StatementNow, Waited
from parcels.services.limiter import KeyedLimiter
from parcels.services.wake import WEBHOOK_QUEUE, send
from parcels.webhooks.addresses import current_policy
from parcels.webhooks.payload import body_of
from parcels.webhooks.post import Answer, post
from parcels.webhooks.signing import signature_headers

log = logging.getLogger(__name__)

# From the contract: ten tries, 5 minutes, doubled up to an hour.
TRIES = 10
FIRST_DELAY = 300.0
LONGEST_DELAY = 3600.0
# Tries in the log of a delivery that is sent again, which a shop may do without end: two rounds.
LOGGED = 2 * TRIES
# Seconds until a failing endpoint is tried by its next delivery, doubled up to LONGEST_DELAY: a
# receiver that refuses one event only is back at once.
ENDPOINT_DELAY = 5.0
# Seconds until the sweeper doubts that a wake-up arrived.
WAKE_AGAIN = 30.0
# What a delivery that was given up shows.
SWITCHED_OFF = "the endpoint is switched off"
EXPIRED = "it was due for too long"
NO_RESULT = "its last try had no result"
# Seconds until the sweeper doubts that an event's message arrived.
FORGOTTEN = 5
# Rows per round of the sweeper (a second): more than a worker sends in one.
ROWS_AT_ONCE = 200
# Deliveries that a statement deletes: PostgreSQL takes 65,535 parameters, and ends it after 10 s.
DELETED_AT_ONCE = 10_000
# Sends at once in one process, for one account, and to one endpoint. Receivers that hang use only
# their own account's share; the worker's other threads are for carriers.
SENDING = KeyedLimiter(total=64, per_key=(16, 8))
# More than a process sends to one endpoint until the sweeper wakes the rest, after WAKE_AGAIN.
IN_LINE = 2000
# By endpoint, what found no place in this process: whichever ends there wakes the next. Else a
# burst for a slow receiver would have its share only when the sweeper wakes it, each WAKE_AGAIN.
TURNED_AWAY: defaultdict[int, deque[int]] = defaultdict(lambda: deque(maxlen=IN_LINE))
# Threads of a process that read and write these rows at once; all others wait for a receiver, or
# for this. Few, as for announcing (`announcer`): a client waits for a label, and the thousand
# events of one account must not queue before it for a connection.
AT_WORK = BoundedSemaphore(2)


def spread(event_id: UUID | str) -> int:
    """Make a delivery for each active endpoint; return how many. Doing it twice changes nothing."""
    with AT_WORK, transaction.atomic():
        event = WebhookEvent.objects.filter(pk=event_id, spread_at=None).first()
        if event is None:
            return 0
        endpoints = WebhookEndpoint.objects.filter(account_id=event.account_id, is_active=True)
        WebhookDelivery.objects.bulk_create(
            [
                WebhookDelivery(event=event, endpoint=endpoint, wake_at=DatabaseNow(WAKE_AGAIN))
                for endpoint in endpoints
            ],
            ignore_conflicts=True,
        )
        WebhookEvent.objects.filter(pk=event.pk).update(spread_at=timezone.now())
        working = WebhookDelivery.objects.filter(event=event, endpoint__retry_at=None)
        for pk in working.values_list("pk", flat=True):
            transaction.on_commit(partial(send, "deliver", [pk], WEBHOOK_QUEUE), robust=True)
    return len(endpoints)


def deliver(delivery_id: int) -> None:
    """Send a pending delivery that is due; does nothing when it isn't, or somebody else has it."""
    following = None
    with ExitStack() as room:
        with AT_WORK:
            ready = _begin(delivery_id, room)
            connection.close()  # no database connection is held while waiting
        if ready is not None:
            delivery, body = ready
            answer = _send(delivery, body)
            with AT_WORK:
                record(delivery, answer)
                following = _next_in_line(delivery.endpoint) if answer.taken else None
                connection.close()
    if following is not None:
        send("deliver", [following], WEBHOOK_QUEUE)


def _begin(delivery_id: int, room: ExitStack) -> tuple[WebhookDelivery, bytes] | None:
    """Claim it and write its body; `room` keeps its place until the end."""
    due = _due(delivery_id)
    waiting = due.select_related("endpoint").first()
    if waiting is None:
        return None
    endpoint = waiting.endpoint
    if reason := _given_up(waiting):
        if due.update(state=DeliveryState.FAILED, last_error=reason):
            metrics.WEBHOOK_TRIES.labels(DeliveryState.FAILED).inc()
    elif not room.enter_context(SENDING.enter(endpoint.account_id, endpoint.pk)):
        TURNED_AWAY[endpoint.pk].append(delivery_id)
    elif _may_be_tried(endpoint) and (delivery := claim(delivery_id)):
        base = settings.PUBLIC_URL or endpoint.base_url
        return delivery, body_of(delivery.event, delivery.event.parcel, base)
    return None


def _next_in_line(endpoint: WebhookEndpoint) -> int | None:
    """Return the first that found no place and is still due; None if no other place is free.

    Ours is left to other accounts then, or to the account's other endpoints.
    """
    line = TURNED_AWAY.get(endpoint.pk)
    if line and SENDING.has_room(endpoint.account_id):
        with suppress(IndexError):
            while not _due(first := line.popleft()).exists():
                pass
            return first
    return None


def _given_up(waiting: WebhookDelivery) -> str:
    """Tell why it will not be sent; empty where it will."""
    if not waiting.endpoint.is_active:
        return SWITCHED_OFF
    if waiting.run_at <= timezone.now() - timedelta(seconds=settings.WEBHOOK_GIVE_UP):
        return EXPIRED
    # Its content may end each process that sends it.
    return NO_RESULT if waiting.tries >= TRIES else ""


def _may_be_tried(endpoint: WebhookEndpoint) -> bool:
    """Tell whether it works, or its delay is over and no other delivery is trying it."""
    if endpoint.retry_at is None:
        return True
    over = WebhookEndpoint.objects.filter(pk=endpoint.pk, retry_at__lte=DatabaseNow())
    return bool(over.update(retry_at=DatabaseNow(_lease())))


def _lease() -> float:
    """Return the seconds after which the process that has a delivery is taken for dead."""
    return 3.0 * settings.WEBHOOK_DEADLINE


def _due(delivery_id: int) -> QuerySet[WebhookDelivery]:
    """Return the delivery if it is pending and due, and no process has it.

    Conditions on the row's own columns only: PostgreSQL then checks them again after waiting for
    another claimant's lock.
    """
    free = Q(lease_until=None) | Q(lease_until__lte=DatabaseNow())
    return WebhookDelivery.objects.filter(
        free, pk=delivery_id, state=DeliveryState.PENDING, run_at__lte=DatabaseNow()
    )


def claim(delivery_id: int) -> WebhookDelivery | None:
    """Take a due delivery for the time of a lease; None if another process has it."""
    if not _due(delivery_id).update(
        lease_until=DatabaseNow(_lease()),
        wake_at=Waited("run_at", _lease() + 1),
        fence=F("fence") + 1,
        tries=F("tries") + 1,
    ):
        return None
    return WebhookDelivery.objects.select_related("event__parcel", "endpoint").get(pk=delivery_id)


def _send(delivery: WebhookDelivery, body: bytes) -> Answer:
    endpoint = delivery.endpoint
    try:
        secret = endpoint.secret
    except InvalidToken:
        return Answer(None, "its secret can't be read", 0.0)
    headers = signature_headers(secret, str(delivery.event_id), int(time.time()), body)
    return post(
        endpoint.url, body, headers, policy=current_policy(), deadline=settings.WEBHOOK_DEADLINE
    )


def record(delivery: WebhookDelivery, answer: Answer) -> DeliveryState:
    """Record a try under its fence, and its consequences."""
    state, delay = next_step(delivery.tries, answer)
    with transaction.atomic():
        # The endpoint before its deliveries, as everybody locks them.
        _record_endpoint(delivery.endpoint, answer)
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
    metrics.WEBHOOK_TRIES.labels(state).inc()
    metrics.WEBHOOK_SECONDS.labels(state).observe(answer.duration)
    return state


def _record_endpoint(endpoint: WebhookEndpoint, answer: Answer) -> None:
    """Note whether the endpoint works; `endpoint` is as it was when the delivery was claimed."""
    row = WebhookEndpoint.objects.filter(pk=endpoint.pk)
    if answer.taken:
        if endpoint.failures:
            row.update(failures=0, failing_since=None, retry_at=None)
        return
    delay = min(LONGEST_DELAY, ENDPOINT_DELAY * 2 ** min(endpoint.failures, TRIES))
    # Of those that were under way together, the first that failed has counted for all. One from
    # before a change or a success says nothing about the endpoint.
    counted = row.filter(failures=endpoint.failures).update(
        failures=F("failures") + 1,
        failing_since=Coalesce("failing_since", DatabaseNow()),
        retry_at=DatabaseNow(delay),
    )
    before = timezone.now() - timedelta(seconds=settings.WEBHOOK_GIVE_UP)
    # Not after a failure long ago and another today: it must have been tried in between.
    since = endpoint.failing_since
    if counted and endpoint.failures >= TRIES and since and since < before:
        _switch_off(endpoint, f"every try has failed since {since:%Y-%m-%d}")


def _switch_off(endpoint: WebhookEndpoint, reason: str) -> None:
    """Give an endpoint up; `deliver` fails what waits for it, in the sweeper's portions."""
    active = WebhookEndpoint.objects.filter(pk=endpoint.pk, is_active=True)
    if active.update(is_active=False, retry_at=None, disabled_reason=reason):
        log.warning("webhook %s (account %s): %s", endpoint.pk, endpoint.account_id, reason)
        metrics.WEBHOOKS_OFF.labels("failing").inc()


def next_step(tries: int, answer: Answer) -> tuple[DeliveryState, float]:
    """Return the state after the given number of tries, and in how many seconds it is due."""
    if answer.taken:
        return DeliveryState.DELIVERED, 0.0
    if tries >= TRIES:
        return DeliveryState.FAILED, 0.0
    delay = min(LONGEST_DELAY, FIRST_DELAY * 2 ** (tries - 1))
    # Jitter: an outage of the receiver must not end in all our deliveries at one moment.
    return DeliveryState.PENDING, min(LONGEST_DELAY, delay * random.uniform(0.9, 1.1))


def send_again(delivery: WebhookDelivery) -> bool:
    """Begin a delivery's tries again, now, whatever became of it and of its endpoint's others.

    Returns False where the endpoint is switched off, and changes nothing: it would fail unsent.

    Raises:
        Http404: it was deleted meanwhile.
    """
    with transaction.atomic():
        active = WebhookEndpoint.objects.filter(pk=delivery.endpoint_id, is_active=True)
        if not active.select_for_update(no_key=True).values_list("pk"):
            return False
        active.exclude(retry_at=None).update(retry_at=DatabaseNow())
        if not WebhookDelivery.objects.filter(pk=delivery.pk).update(
            state=DeliveryState.PENDING,
            tries=0,
            lease_until=None,
            fence=F("fence") + 1,
            run_at=DatabaseNow(),
            wake_at=DatabaseNow(WAKE_AGAIN),
        ):
            raise Http404
        # While it is locked, and without its event: after the commit both may be deleted.
        delivery.refresh_from_db(fields=["state", "tries", "run_at"])
        tries = WebhookAttempt.objects.filter(delivery=delivery.pk)
        tries.exclude(pk__in=tries.order_by("-pk").values("pk")[:LOGGED]).delete()
        transaction.on_commit(partial(send, "deliver", [delivery.pk], WEBHOOK_QUEUE), robust=True)
    return True


def create_endpoint(
    *,
    account: Account,
    url: str,
    secret: str | None,
    is_active: bool,
    base_url: str,
    integration: Integration | None = None,
) -> WebhookEndpoint:
    """Register an address; without a secret of the shop's own it gets a random one.

    Raises:
        ValidationError: the account has as many as it may have.
    """
    with transaction.atomic():
        # Locked: of two at once, the second counts the first's.
        Account.objects.select_for_update(no_key=True).get(pk=account.pk)
        if WebhookEndpoint.objects.filter(account=account).count() >= limits.WEBHOOKS:
            raise ValidationError(f"At most {limits.WEBHOOKS} webhooks.")
        return WebhookEndpoint.objects.create(
            account=account,
            integration=integration,
            url=url,
            secret=secret or new_secret(),
            is_active=is_active,
            base_url=base_url,
        )


def update_endpoint(
    *, endpoint: WebhookEndpoint, url: str | None, secret: str | None, is_active: bool | None
) -> WebhookEndpoint:
    """Change what is given, and try it again; switched off, what waits for it fails when due.

    Raises:
        Http404: it was deleted meanwhile.
    """
    with transaction.atomic():
        # Locked: others may have written since it was read.
        row = get_object_or_404(WebhookEndpoint.objects.select_for_update(), pk=endpoint.pk)
        row.url = url or row.url
        if secret:  # the former one need not be readable
            row.secret = secret
        row.is_active = row.is_active if is_active is None else is_active
        if row.is_active:
            row.forget_failures()
        row.save()
    return row


def delete_endpoint(endpoint_id: int) -> None:
    """Delete an endpoint with its deliveries, however many there are.

    In portions, each with a commit: sweepers and workers don't wait for the end.
    """
    endpoint = WebhookEndpoint.objects.filter(pk=endpoint_id)
    endpoint.update(is_active=False)
    while _delete_deliveries(endpoint_id) == DELETED_AT_ONCE:
        pass
    with transaction.atomic():
        # Locked: an event that is spread meanwhile waits at its foreign key, and finds no endpoint.
        list(endpoint.select_for_update().values_list("pk"))
        _delete_deliveries(endpoint_id)
        endpoint.delete()


@transaction.atomic
def _delete_deliveries(endpoint_id: int) -> int:
    # Locked: a try that is recorded meanwhile would be left without its delivery.
    rows = WebhookDelivery.objects.filter(endpoint=endpoint_id).select_for_update().order_by("pk")
    ids = list(rows.values_list("pk", flat=True)[:DELETED_AT_ONCE])
    WebhookAttempt.objects.filter(delivery__in=ids)._raw_delete(DEFAULT_DB_ALIAS)
    WebhookDelivery.objects.filter(pk__in=ids)._raw_delete(DEFAULT_DB_ALIAS)
    return len(ids)


def spread_forgotten() -> int:
    """Spread events whose wake-up was lost; for the sweeper."""
    ids = forgotten_events().order_by("date_created").values_list("pk", flat=True)[:ROWS_AT_ONCE]
    return sum(spread(pk) for pk in list(ids))


def forgotten_events() -> QuerySet[WebhookEvent]:
    """Return the events that nobody has spread, though their message was sent."""
    before = StatementNow(-FORGOTTEN)
    return WebhookEvent.objects.filter(spread_at=None, date_created__lte=before)


def due_endpoints() -> QuerySet[WebhookEndpoint]:
    """Return the endpoints for which deliveries are due, by when the first was."""
    # One step into an index for each endpoint, however many deliveries wait.
    pending = WebhookDelivery.objects.filter(endpoint=OuterRef("pk"), state=DeliveryState.PENDING)
    return (
        WebhookEndpoint.objects.filter(
            Q(retry_at=None) | Q(retry_at__lte=StatementNow()) | Q(is_active=False)
        )
        .annotate(first=Subquery(pending.order_by("wake_at").values("wake_at")[:1]))
        .filter(first__lte=StatementNow())
        .order_by("first")
    )


def due_deliveries() -> list[int]:
    """Return deliveries that are due for a wake-up, and note when they would be next.

    Each account that has any gets the same share. Of a failing endpoint, one when it is due; of one
    that is switched off as of one that works: `deliver` fails them.
    """
    pending = WebhookDelivery.objects.filter(state=DeliveryState.PENDING).order_by("wake_at")
    endpoints = list(due_endpoints()[:ROWS_AT_ONCE])
    of_account = Counter(endpoint.account_id for endpoint in endpoints)
    portions: list[list[int]] = []
    now = StatementNow()
    for endpoint in endpoints:
        share = ROWS_AT_ONCE // len(of_account) // of_account[endpoint.account_id]
        due = pending.filter(endpoint=endpoint, wake_at__lte=now).values_list("pk", flat=True)
        if endpoint.is_active and endpoint.retry_at:
            # The least tried: its receiver may refuse the oldest for good. Those without a try are
            # asked for first, as they are found by the index, however many wait; the newest, as the
            # oldest may have been due for too long, which is no try.
            found = (
                due.filter(tries=0).order_by("-wake_at")[:1] or due.order_by("tries", "wake_at")[:1]
            )
        else:
            found = due[: max(share, 1)]
        portions.append(list(found))
    # In turn: without a broker the sweeper has room for the first few.
    ids = [pk for turn in zip_longest(*portions) for pk in turn if pk is not None]
    pending.filter(pk__in=ids).update(wake_at=DatabaseNow(WAKE_AGAIN))
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
