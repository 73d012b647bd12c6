"""Labels that were sold to us in addition to the one that is kept."""

from django.db import models
from django.db.models.functions import Now

from parcels.models.announcement import Announcement
from parcels.models.attempt import Attempt


class SpareState(models.TextChoices):
    """open → kept (it is the announcement's own label) | gone (the carrier took it back)."""

    OPEN = "open"
    KEPT = "kept"
    GONE = "gone"


class SpareLabel(models.Model):
    """A label that may not be the announcement's own. The sweeper voids it until it is gone."""

    announcement = models.ForeignKey(
        Announcement, on_delete=models.CASCADE, related_name="spares", db_index=False
    )
    # The attempt that brought it, with its documents; None where only the carrier's list has it.
    attempt = models.ForeignKey(
        Attempt,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        db_constraint=False,
        related_name="+",
    )
    carrier_id = models.CharField(max_length=128)
    tracking_number = models.CharField(max_length=64)
    # Where it was seen: answer, lookup, late_look or invoice.
    source = models.CharField(max_length=16)
    state = models.CharField(max_length=8, choices=SpareState.choices, default=SpareState.OPEN)
    # Not before this moment: claimed by moving it on.
    run_at = models.DateTimeField(db_default=Now())
    # Calls to void it.
    tries = models.IntegerField(default=0)
    error = models.CharField(max_length=500, blank=True, default="")
    # By the database's clock: for a while a carrier's list need not have it.
    date_created = models.DateTimeField(db_default=Now())
    date_ended = models.DateTimeField(null=True, blank=True)

    class Meta:
        permissions = [("settle_sparelabel", "Can close a spare label that was settled by hand")]
        constraints = [
            models.UniqueConstraint(
                fields=["announcement", "tracking_number"], name="spare_label_once"
            ),
        ]
        indexes = [
            models.Index(
                fields=["run_at"],
                name="spare_label_due",
                condition=models.Q(state=SpareState.OPEN),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tracking_number} ({self.state})"
