"""What Celery runs: thin, with ids only. Losing or repeating one costs time, never a label."""

from __future__ import annotations

from celery import Task, shared_task

from parcels.services import webhooks
from parcels.services.announcer import LOOP
from parcels.services.reconcile import reconcile as reconcile_service
from parcels.services.void import void as void_service


@shared_task(name="parcels.tasks.announce", bind=True)
def announce(self: Task[..., None], *announcement_ids: int) -> None:
    """Announce what waits in the message's queue: these, and all that have come beside them."""
    # From the message's queue, not its content: old messages have only the id.
    came_by = self.request.delivery_info or {}
    LOOP.ring(came_by.get("routing_key") or "", announcement_ids)


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
