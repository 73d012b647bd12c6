"""What Celery runs: thin, with ids only. Losing or repeating one costs time, never a label."""

from celery import Task, shared_task

from parcels.services import webhooks
from parcels.services.announcer import LOOP
from parcels.services.reconcile import reconcile
from parcels.services.void import void


@shared_task(name="parcels.tasks.announce", bind=True)
def announce(self: Task[..., None], *announcement_ids: int) -> None:
    """Announce what waits in the message's queue: these, and all that have come beside them."""
    # From the message's queue, not its content: old messages have only the id.
    came_by = self.request.delivery_info or {}
    LOOP.ring(came_by.get("routing_key") or "", announcement_ids)


# A service with one id is a task as it is.
shared_task(name="parcels.tasks.reconcile")(reconcile)
shared_task(name="parcels.tasks.void")(void)
shared_task(name="parcels.tasks.spread_event")(webhooks.spread)
shared_task(name="parcels.tasks.deliver")(webhooks.deliver)
