"""Where a parcel has been: the carriers' events, and how far we have read their feed."""

from django.db import models
from django.db.models import Q

from parcels.models.parcel import Parcel


class TrackingEvent(models.Model):
    """One step of one parcel, written once.

    On PostgreSQL in a partition for each month of `at`, which is part of what is unique there.
    """

    # None until a parcel has this tracking number: a carrier may be ahead of its own answer.
    parcel = models.ForeignKey(
        Parcel, on_delete=models.CASCADE, related_name="tracking_events", null=True, blank=True
    )
    carrier = models.CharField(max_length=32)
    tracking_number = models.CharField(max_length=64)
    status = models.IntegerField()
    message = models.CharField(max_length=255, blank=True, default="")
    # When it happened, by the carrier's clock.
    at = models.DateTimeField()
    # Its number in the feed: the same event read twice is one row. None for our own steps.
    seq = models.BigIntegerField(null=True, blank=True, unique=True)

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [
            models.Index(
                fields=["tracking_number"],
                name="tracking_event_unmatched",
                condition=Q(parcel__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tracking_number}: {self.status}"


class FeedCursor(models.Model):
    """How far a feed has been read; or another place at which a sweeper goes on."""

    name = models.CharField(max_length=32, primary_key=True)
    seq = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.name}: {self.seq}"
