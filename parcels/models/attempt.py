"""Attempts: each call to a carrier for an announcement."""

from django.db import models

from parcels.models.announcement import Announcement


class Attempt(models.Model):
    """One try at the carrier, written once and never changed. No personal data.

    On PostgreSQL in a partition for each month (`parcels.services.partitions`): nothing in the
    database can refer to it.
    """

    announcement = models.ForeignKey(
        Announcement, on_delete=models.CASCADE, related_name="attempts"
    )
    kind = models.CharField(max_length=16, default="announce")  # announce, lookup, void
    fence = models.IntegerField()
    sent_at = models.DateTimeField(null=True, blank=True)
    # Seconds from the first connect to the outcome.
    duration = models.FloatField(default=0)
    outcome = models.CharField(max_length=32)
    detail = models.CharField(max_length=500, blank=True, default="")
    carrier_id = models.CharField(max_length=128, blank=True, default="")
    tracking_number = models.CharField(max_length=64, blank=True, default="")
    # False if another process had the row by then: reconciliation decides about its label.
    recorded = models.BooleanField(default=True)
    date_created = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.kind} {self.fence}: {self.outcome}"
