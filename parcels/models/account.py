"""Accounts (tenants)."""

from typing import ClassVar

from django.core.exceptions import ValidationError
from django.db import models

from parcels.throttling.limits import parse_limits


def check_limits(text: str) -> None:
    """Refuse limits that the throttle could not read."""
    try:
        parse_limits(text)
    except ValueError as error:
        raise ValidationError(str(error)) from None


class Account(models.Model):
    """A shop. Every parcel belongs to one; nothing of one is ever shown to another."""

    name = models.CharField(max_length=255)
    company_name = models.CharField(max_length=255, blank=True, default="")
    email = models.EmailField(blank=True, default="")
    telephone = models.CharField(max_length=64, blank=True, default="")
    is_active = models.BooleanField(default=True)
    # The default sender address: the first one that is made, until another is chosen.
    sender_address = models.ForeignKey(
        "parcels.SenderAddress",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
    )
    # None: the general limits; "none": no limit. Otherwise e.g. "1000/min".
    read_limit = models.CharField(max_length=32, blank=True, default="", validators=[check_limits])
    write_limit = models.CharField(max_length=32, blank=True, default="", validators=[check_limits])
    date_created = models.DateTimeField(auto_now_add=True)

    # What the framework's permission classes ask a user for.
    is_authenticated: ClassVar[bool] = True

    def __str__(self) -> str:
        return self.name
