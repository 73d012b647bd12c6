"""Change an integration and its webhook, which is an endpoint like the account's others."""

from typing import Any

from cryptography.fernet import InvalidToken
from django.db import transaction
from rest_framework.exceptions import ValidationError

from parcels.models import Integration, WebhookEndpoint
from parcels.services.webhooks import create_endpoint, delete_endpoint, update_endpoint


def change_integration(
    *, integration_id: int, fields: dict[str, Any], secret_key: str, base_url: str
) -> None:
    """Change what is given; `fields` are `IntegrationIn`'s.

    Receivers of the dialect verify with the shop's secret key, of which we keep the hash only. So
    the request that sets `webhook_url` leaves its own `secret_key` to sign with, encrypted, unless
    it or an earlier one brings a `webhook_signature_key`.

    Raises:
        ValidationError: a webhook without an address, or one too many.
    """
    with transaction.atomic():
        # Locked: of two at once, the second finds the first's webhook.
        integration = Integration.objects.select_for_update().filter(pk=integration_id).first()
        if integration is None:  # deleted since the caller looked
            return
        for name in ("shop_name", "shop_url"):
            if fields.get(name) is not None:
                setattr(integration, name, fields[name])
        integration.save()
        unwanted = _set_webhook(integration, fields, secret_key, base_url)
    if unwanted:  # in transactions of its own
        delete_endpoint(unwanted.pk)


def delete_integration(integration_id: int) -> None:
    """Delete an integration with its webhook."""
    hook = WebhookEndpoint.objects.filter(integration=integration_id).first()
    if hook:
        delete_endpoint(hook.pk)
    with transaction.atomic():
        # Locked, as above: none gets a webhook meanwhile.
        integration = Integration.objects.select_for_update().filter(pk=integration_id).first()
        if integration:
            integration.delete()


def _set_webhook(
    integration: Integration, fields: dict[str, Any], secret_key: str, base_url: str
) -> WebhookEndpoint | None:
    """Make or change it; return one that is to be deleted."""
    hook = WebhookEndpoint.objects.filter(integration=integration).first()
    url, active = fields.get("webhook_url"), fields.get("webhook_active")
    key = fields.get("webhook_signature_key")
    if (active or key) and not (hook.url if hook and url is None else url):
        raise ValidationError({"webhook_url": ["A webhook needs an address."]})
    if hook is None and url:
        create_endpoint(
            account=integration.account,
            integration=integration,
            url=url,
            secret=key or secret_key,
            is_active=bool(active),
            base_url=base_url,
        )
    elif hook and url == "":
        return hook
    elif hook and (url or key or active is not None):
        secret = key or (secret_key if url and _signs_with_a_secret_key(hook) else None)
        update_endpoint(endpoint=hook, url=url, secret=secret, is_active=active)
    return None


def _signs_with_a_secret_key(hook: WebhookEndpoint) -> bool:
    """Tell one of the account's keys, revoked or not, from a key that the shop chose."""
    try:
        return any(key.matches(hook.secret) for key in hook.account.keys.all())
    except InvalidToken:  # it can't sign: any key is better
        return True
