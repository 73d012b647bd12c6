"""What Celery runs: thin, with ids only. Losing or repeating one costs time, never a label."""

from __future__ import annotations

from celery import shared_task

from parcels.services import webhooks
from parcels.services.announcer import loop
from parcels.services.reconcile import reconcile as reconcile_service
from parcels.services.void import void as void_service


@shared_task(name="parcels.tasks.announce")
def announce(announcement_id: int) -> None:
    """Announce a pending announcement, if it still is."""
    loop().submit(announcement_id)


@shared_task(name="parcels.tasks.reconcile")
def reconcile(announcement_id: int) -> None:
    """Find out what became of an unknown one."""
    reconcile_service(announcement_id)


@shared_task(name="parcels.tasks.void")
def void(announcement_id: int) -> None:
    """Void a label whose parcel is being cancelled."""
    void_service(announcement_id)


@shared_task(name="parcels.tasks.spread_event")
def spread_event(event_id: str) -> None:
    """Make a webhook event's deliveries."""
    webhooks.spread(event_id)


@shared_task(name="parcels.tasks.deliver")
def deliver(delivery_id: int) -> None:
    """Send a webhook, if it is still to be sent."""
    webhooks.deliver(delivery_id)
