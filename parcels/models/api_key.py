"""API keys of an account."""

import hashlib
import hmac
import secrets
from contextlib import suppress
from typing import Self

from django.conf import settings
from django.db import DatabaseError, models

from parcels.models.account import Account


def keyed_hash(secret: str, key: str) -> str:
    """Return the former hash of secret keys: as safe, but it depends on SECRET_KEY."""
    return hmac.new(b"api key:" + key.encode(), secret.encode(), hashlib.sha256).hexdigest()


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
    # Empty: the key is from an older version and has not been used since.
    digest = models.CharField(max_length=64, blank=True, default="", db_default="")
    # Keyed by SECRET_KEY. Still written: the old code serves beside this one during a release.
    secret_hash = models.CharField(max_length=64)
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
        key = cls.objects.create(
            account=account,
            public_key=public_key,
            digest=digest_of(secret_key),
            secret_hash=keyed_hash(secret_key, settings.SECRET_KEY),
        )
        return key, secret_key

    def matches(self, secret_key: str) -> bool:
        """Compare in constant time: whatever is wrong, the work is the same."""
        if hmac.compare_digest(self.digest, digest_of(secret_key)):
            return True
        known = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
        equal = [
            hmac.compare_digest(self.secret_hash, keyed_hash(secret_key, key)) for key in known
        ]
        return any(equal)

    def keep_digest(self, secret_key: str) -> None:
        """Make a key of an older version independent of SECRET_KEY.

        Where the database takes no writes now, the next request does it.
        """
        with suppress(DatabaseError):
            ApiKey.objects.filter(pk=self.pk).update(digest=digest_of(secret_key))
