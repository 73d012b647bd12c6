"""The outbox of webhook events, written in the transaction that changes a parcel's status."""

from __future__ import annotations

import uuid

from django.db import models
from django.utils import timezone

from parcels.models.account import Account
from parcels.models.parcel import Parcel


class WebhookEvent(models.Model):
    """A status change that the account's endpoints must hear of."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="+")
    parcel = models.ForeignKey(Parcel, on_delete=models.CASCADE, related_name="+")
    action = models.CharField(max_length=64, default="parcel_status_changed")
    status = models.IntegerField()
    date_created = models.DateTimeField(default=timezone.now)
    # When it was spread over the account's endpoints; None: still to do.
    spread_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["date_created"],
                name="webhook_event_due",
                condition=models.Q(spread_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.status} of parcel {self.parcel_id}"
