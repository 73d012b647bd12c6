"""Webhook endpoints and their deliveries, as tests make them."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from parcels.models import (
    Account,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from parcels.services import webhooks
from parcels.tests.factories import LabelledParcelFactory
from parcels.webhooks.post import Answer

URL = "https://receiver.example/hook"
TAKEN = Answer(200, "", 0.1)
REFUSED = Answer(500, "", 0.1)


def endpoint_of(account: Account, **fields: Any) -> WebhookEndpoint:
    return WebhookEndpoint.objects.create(account=account, url=URL, **fields)


def delivery_for(account: Account) -> WebhookDelivery:
    endpoint = WebhookEndpoint.objects.filter(account=account).first() or endpoint_of(account)
    parcel = LabelledParcelFactory.create(account=account)
    event = WebhookEvent.objects.create(account=account, parcel=parcel, status=1000)
    webhooks.spread(event.pk)
    return WebhookDelivery.objects.get(event=event, endpoint=endpoint)


def due_again(**of: Any) -> None:
    """Let the time until the next try pass, for the endpoint and for its deliveries."""
    past = timezone.now() - timedelta(seconds=1)
    WebhookEndpoint.objects.exclude(retry_at=None).update(retry_at=past)
    WebhookDelivery.objects.filter(**of).update(run_at=past, wake_at=past, lease_until=None)


def sweep_once() -> list[int]:
    ids = webhooks.due_deliveries()
    for delivery_id in ids:
        webhooks.deliver(delivery_id)
    return ids
