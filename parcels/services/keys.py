"""API keys: issue a second one, let the shop change over, revoke the first."""

from contextlib import suppress

from cryptography.fernet import InvalidToken
from django.db import transaction
from django.utils import timezone

from parcels.models import Account, ApiKey, WebhookEndpoint

# The one in use and the one that replaces it. A third would only be forgotten.
LIVE_KEYS = 2


class TooManyKeys(Exception):
    """The account has as many live keys as it may."""


def issue_key(account: Account) -> tuple[ApiKey, str]:
    """Make a key pair; return it with its secret key, which can't be had again.

    Raises:
        TooManyKeys: two are live already.
    """
    with transaction.atomic():
        # The lock keeps two issuers from both seeing one live key.
        Account.objects.select_for_update().get(pk=account.pk)
        if ApiKey.objects.filter(account=account, revoked_at=None).count() >= LIVE_KEYS:
            raise TooManyKeys("The account has two live keys: revoke one before issuing another")
        return ApiKey.generate(account)


def revoke_key(key: ApiKey) -> bool:
    """End a key at once; False when it had ended before."""
    ended = ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=timezone.now())
    return bool(ended)


def signing_with(key: ApiKey) -> list[str]:
    """Name the webhooks that sign with a key: their receivers refuse them when they change it."""
    named = []
    for hook in WebhookEndpoint.objects.filter(account=key.account_id).order_by("pk"):
        field = "webhook_url" if hook.integration_id else "secret"
        with suppress(InvalidToken):  # it signs nothing
            if key.matches(hook.secret):
                named.append(
                    f"{hook} still signs with this key: have the shop send its {field} again"
                )
    return named
