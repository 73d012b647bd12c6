"""Idempotency keys."""

from django.db import models

from parcels.models.account import Account


class IdempotencyKey(models.Model):
    """The same key and body make nothing new: they join what the first request made."""

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="+", db_index=False)
    key = models.CharField(max_length=255)
    # SHA-256 of method, path, query and body: the same key with another body is refused.
    fingerprint = models.CharField(max_length=64)
    # The first request's parcels.representation.Question, and whether its answer waits for labels.
    question = models.JSONField(null=True)
    expires_at = models.DateTimeField(db_index=True)
    date_created = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["account", "key"], name="idempotency_key_once"),
        ]

    def __str__(self) -> str:
        return self.key
