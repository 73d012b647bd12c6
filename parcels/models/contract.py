"""An account's agreement with a carrier."""

from django.db import models

from parcels.models.account import Account
from parcels.models.encrypted import EncryptedJSONField


class CarrierContract(models.Model):
    """Credentials at one carrier. One model for all carriers: what differs is in the JSON."""

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="contracts")
    carrier = models.CharField(max_length=32)
    name = models.CharField(max_length=255, blank=True, default="")
    credentials = EncryptedJSONField(default=dict)
    is_default = models.BooleanField(default=True)
    date_created = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["account", "carrier"],
                condition=models.Q(is_default=True),
                name="one_default_contract_per_carrier",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.carrier} ({self.name or self.pk})"
