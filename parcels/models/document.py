"""Documents from the carrier, and customs documents."""

from django.db import models

from parcels.models.attempt import Attempt
from parcels.models.parcel import Parcel


class Document(models.Model):
    """A document in the form in which the carrier made it."""

    parcel = models.ForeignKey(Parcel, on_delete=models.CASCADE, related_name="documents")
    type = models.CharField(max_length=32, default="label")
    format = models.CharField(max_length=8)  # pdf, zpl
    # Empty where `file` names a file of the storage `labels` (parcels.papers.files), which has it.
    content = models.BinaryField()
    file = models.CharField(max_length=100, null=True, blank=True)
    # Set where another process had the row when the carrier answered: kept as evidence, since a
    # carrier without lookup gives its label only once.
    attempt = models.ForeignKey(
        Attempt, on_delete=models.CASCADE, null=True, blank=True, db_constraint=False
    )
    date_created = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["parcel", "type", "format"],
                condition=models.Q(attempt__isnull=True),
                name="one_document_per_form",
            ),
        ]
        # The sweeper looks for the oldest, each round.
        indexes = [models.Index(fields=["date_created"], name="document_age")]

    def __str__(self) -> str:
        return f"{self.type} ({self.format}) of parcel {self.parcel_id}"


class DiscardedFile(models.Model):
    """A file whose row was deleted, in the same transaction; the sweeper deletes it."""

    name = models.CharField(max_length=100)

    def __str__(self) -> str:
        return self.name
