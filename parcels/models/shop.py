"""A shop's settings: its sender addresses, brands and connected shop systems."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django_countries import countries

from parcels.models.account import Account


class Brand(models.Model):
    """How a shop shows itself to its customers."""

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="brands")
    name = models.CharField(max_length=255)
    domain = models.CharField(max_length=255, blank=True, default="")
    website = models.CharField(max_length=255, blank=True, default="")
    color = models.CharField(max_length=7, blank=True, default="")
    secondary_color = models.CharField(max_length=7, blank=True, default="")
    notify_reply_to_email = models.CharField(max_length=255, blank=True, default="")
    # Where its customers ask for a return; empty: the shop has no return portal.
    return_portal_url = models.URLField(max_length=255, blank=True, default="")

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.name


class SenderAddress(models.Model):
    """An address that a shop sends from; a parcel keeps a copy of it as it was."""

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="sender_addresses")
    brand = models.ForeignKey(Brand, on_delete=models.SET_NULL, null=True, blank=True)
    company_name = models.CharField(max_length=255, blank=True, default="")
    contact_name = models.CharField(max_length=255, blank=True, default="")
    email = models.CharField(max_length=255, blank=True, default="")
    telephone = models.CharField(max_length=255, blank=True, default="")
    street = models.CharField(max_length=255)
    house_number = models.CharField(max_length=255, blank=True, default="")
    postal_box = models.CharField(max_length=255, blank=True, default="")
    postal_code = models.CharField(max_length=255)
    city = models.CharField(max_length=255)
    country = models.CharField(max_length=2)
    country_state = models.CharField(max_length=255, null=True, blank=True)
    vat_number = models.CharField(max_length=64, blank=True, default="")
    eori_number = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        ordering = ["id"]
        verbose_name_plural = "sender addresses"

    def __str__(self) -> str:
        return f"{self.company_name or self.contact_name}, {self.city}"

    def save(self, *args: Any, **options: Any) -> None:
        """Store it; an account without a default address gets it as its default."""
        super().save(*args, **options)
        Account.objects.filter(pk=self.account_id, sender_address=None).update(sender_address=self)

    def clean(self) -> None:
        """Refuse another's brand, and a country that is none: with it customs is told nothing."""
        self.country = self.country.upper()
        if countries.alpha2(self.country) != self.country:
            raise ValidationError({"country": "A two-letter country code is needed."})
        if self.brand and self.brand.account_id != self.account_id:
            raise ValidationError({"brand": "A brand of the same account is needed."})


class Integration(models.Model):
    """A shop system that is connected to the account."""

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="integrations")
    shop_name = models.CharField(max_length=255)
    shop_url = models.CharField(max_length=255, blank=True, default="")
    system = models.CharField(max_length=64, default="api")
    service_point_enabled = models.BooleanField(default=False)
    failing_since = models.DateTimeField(null=True, blank=True)
    last_fetch = models.DateTimeField(null=True, blank=True)
    last_updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.shop_name
