"""Webhooks: the outbox of events, their endpoints, and the deliveries.

An event is written in the transaction that changes a parcel's status; nothing about it is kept in
the broker.
"""

import secrets
import uuid
from base64 import b64encode
from urllib.parse import urlsplit

from django.db import models
from django.db.models.functions import Now
from django.utils import timezone

from parcels.models.account import Account
from parcels.models.encrypted import EncryptedJSONField
from parcels.models.parcel import Parcel
from parcels.models.shop import Integration

# What Standard Webhooks puts before a secret, so that people and scanners recognise it.
SECRET_PREFIX = "whsec_"  # noqa: S105 # not a secret


def new_secret() -> str:
    """Return a signing secret: the prefix and 32 random bytes in base64."""
    return SECRET_PREFIX + b64encode(secrets.token_bytes(32)).decode()


class WebhookEndpoint(models.Model):
    """An address of an account that gets its parcels' status changes."""

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="webhooks")
    # Set where it was made by `PUT /integrations/{id}`, which shows and changes it then.
    integration = models.OneToOneField(
        Integration, on_delete=models.CASCADE, null=True, blank=True, related_name="webhook"
    )
    # 2048 is what browsers and proxies agree on.
    url = models.CharField(max_length=2048)
    is_active = models.BooleanField(default=True)
    # Failed tries in a row, those that were under way together as one; 0: it works.
    failures = models.IntegerField(default=0, db_default=0)
    failing_since = models.DateTimeField(null=True, blank=True)
    # When one delivery may be tried; None: all that are due.
    retry_at = models.DateTimeField(null=True, blank=True)
    # Why we switched it off; empty where the shop did.
    disabled_reason = models.CharField(max_length=100, blank=True, default="", db_default="")
    secret = EncryptedJSONField(default=new_secret)
    # What absolute URLs in a payload begin with where PUBLIC_URL is not set: as the request that
    # registered the endpoint saw us.
    base_url = models.CharField(max_length=255, blank=True, default="")
    date_created = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"webhook {self.pk}"

    @property
    def host(self) -> str:
        """The part of the address that may be shown: path and query may have secrets."""
        try:
            return urlsplit(self.url).hostname or ""
        except ValueError:
            return ""

    def forget_failures(self) -> None:
        """Have it tried as if it had never failed; the caller saves."""
        self.failures, self.failing_since, self.retry_at = 0, None, None
        self.disabled_reason = ""


class WebhookEvent(models.Model):
    """A status change that the account's endpoints must get."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    # Nothing searches by it: an account is not deleted.
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="+", db_index=False)
    parcel = models.ForeignKey(Parcel, on_delete=models.CASCADE, related_name="+")
    action = models.CharField(max_length=64, default="parcel_status_changed")
    status = models.IntegerField()
    # When the carrier says that it changed; None where the change is ours.
    carrier_changed_at = models.DateTimeField(null=True, blank=True)
    date_created = models.DateTimeField(default=timezone.now)
    # When the deliveries to the account's endpoints were made; None: not yet.
    spread_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["date_created"],
                name="webhook_event_due",
                condition=models.Q(spread_at__isnull=True),
            ),
            # The sweeper looks for the oldest, each round.
            models.Index(fields=["date_created"], name="webhook_event_age"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.status} of parcel {self.parcel_id}"


class DeliveryState(models.TextChoices):
    """pending → delivered | failed; "send again" makes either pending once more."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class WebhookDelivery(models.Model):
    """One event for one endpoint, over all its tries."""

    event = models.ForeignKey(
        WebhookEvent, on_delete=models.CASCADE, related_name="deliveries", db_index=False
    )
    endpoint = models.ForeignKey(
        WebhookEndpoint, on_delete=models.CASCADE, related_name="deliveries", db_index=False
    )
    state = models.CharField(
        max_length=16, choices=DeliveryState.choices, default=DeliveryState.PENDING
    )
    tries = models.SmallIntegerField(default=0)
    # As with announcements: claimed not before run_at, woken by the sweeper at wake_at.
    run_at = models.DateTimeField(db_default=Now())
    wake_at = models.DateTimeField(db_default=Now())
    lease_until = models.DateTimeField(null=True, blank=True)
    fence = models.IntegerField(default=0)
    last_status = models.SmallIntegerField(null=True, blank=True)
    last_error = models.CharField(max_length=100, blank=True, default="")
    delivered_at = models.DateTimeField(null=True, blank=True)
    date_created = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural = "webhook deliveries"
        permissions = [("resend_webhookdelivery", "Can send a webhook again")]
        constraints = [
            models.UniqueConstraint(fields=["event", "endpoint"], name="event_once_per_endpoint"),
        ]
        indexes = [
            models.Index(fields=["endpoint", "-id"], name="webhook_delivery_list"),
            models.Index(
                fields=["endpoint", "wake_at"],
                name="webhook_delivery_next",
                condition=models.Q(state=DeliveryState.PENDING),
            ),
        ]

    def __str__(self) -> str:
        return f"delivery {self.pk} ({self.state})"


class WebhookAttempt(models.Model):
    """One try at an endpoint, written once. Neither body is kept: not ours, not theirs."""

    delivery = models.ForeignKey(WebhookDelivery, on_delete=models.CASCADE, related_name="attempts")
    date_created = models.DateTimeField(default=timezone.now)
    # Seconds from resolving the name to the status line.
    duration = models.FloatField()
    status = models.SmallIntegerField(null=True, blank=True)
    error = models.CharField(max_length=100, blank=True, default="")

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.status or self.error}"
