"""API keys of an account."""

import hashlib
import hmac
import secrets
from typing import Self

from django.db import models

from parcels.models.account import Account


def digest_of(secret: str) -> str:
    """Return the SHA-256 of a secret key: 64 hex digits.

    A secret key has 128 random bits: it can't be found from its hash, however fast the hash is. A
    slow one on each request would cost more than the request; a keyed one would make every shop
    change its keys when SECRET_KEY is changed.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


class ApiKey(models.Model):
    """A key pair: the public key is the user name, the secret key the password.

    Two may be live at once, so that a shop can change keys without an outage.
    """

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="keys")
    public_key = models.CharField(max_length=64, unique=True)
    digest = models.CharField(max_length=64)
    date_created = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "API key"
        permissions = [
            ("issue_apikey", "Can issue API keys"),
            ("revoke_apikey", "Can revoke API keys"),
        ]

    def __str__(self) -> str:
        return self.public_key

    @classmethod
    def generate(cls, account: Account) -> tuple[Self, str]:
        """Make and store a key pair; return it with the secret key, which is shown only here."""
        public_key, secret_key = secrets.token_hex(16), secrets.token_hex(16)
        digest = digest_of(secret_key)
        key = cls.objects.create(account=account, public_key=public_key, digest=digest)
        return key, secret_key

    def matches(self, secret_key: str) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(self.digest, digest_of(secret_key))
