"""Which client waits for which announcements."""

from django.db import models

from parcels.models.account import Account
from parcels.models.announcement import Announcement


class Hold(models.Model):
    """A client connection that is held: what it waits for, and the form of its answer.

    A row, and not only a key in Redis: any worker finds its clients, and a lost key costs nothing.
    """

    id = models.CharField(max_length=32, primary_key=True)
    # Searched by it only to forget a receiver: among the holds of an hour.
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="+", db_index=False)
    announcements = models.ManyToManyField(Announcement, related_name="holds")
    # parcels.representation.Question as JSON.
    question = models.JSONField()
    deadline_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["deadline_at"],
                name="hold_waiting",
                condition=models.Q(released_at__isnull=True),
            ),
            # The sweeper looks for the oldest, each round.
            models.Index(fields=["deadline_at"], name="hold_age"),
        ]

    def __str__(self) -> str:
        return self.id
