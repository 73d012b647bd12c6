"""Accounts (tenants) and their API keys."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import ClassVar

from django.conf import settings
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
    # The default: what is sent from nowhere else. The first one that is made, until one is chosen.
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


def hash_secret(secret: str) -> str:
    """Return the keyed hash of a secret key: 64 hex digits.

    A secret key is 128 bits of randomness, so a fast hash is enough; a slow one on each request
    would cost more than the request. The key keeps a stolen table useless without the settings.
    """
    key = b"api key:" + settings.SECRET_KEY.encode()
    return hmac.new(key, secret.encode(), hashlib.sha256).hexdigest()


class ApiKey(models.Model):
    """A key pair: the public key is the user name, the secret key the password.

    Two may be live at once, so that a shop can change keys without an outage.
    """

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="keys")
    public_key = models.CharField(max_length=64, unique=True)
    secret_hash = models.CharField(max_length=64)
    date_created = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        permissions = [
            ("issue_apikey", "Can issue API keys"),
            ("revoke_apikey", "Can revoke API keys"),
        ]

    def __str__(self) -> str:
        return self.public_key

    @classmethod
    def generate(cls, account: Account) -> tuple[ApiKey, str]:
        """Make and store a key pair; return it with the secret key, which is shown only here."""
        public_key, secret_key = secrets.token_hex(16), secrets.token_hex(16)
        key = cls.objects.create(
            account=account, public_key=public_key, secret_hash=hash_secret(secret_key)
        )
        return key, secret_key

    def matches(self, secret_key: str) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(self.secret_hash, hash_secret(secret_key))
