"""A shop's own things as the dialect shows them."""

from typing import Any

from carriers import registry
from parcels.models import Account, Brand, CarrierContract, Integration, SenderAddress


def user_payload(account: Account, address: SenderAddress | None) -> dict[str, Any]:
    """Return the account; where it is comes from its default sender address."""
    return {
        "id": account.pk,
        "username": account.name,
        "company_name": account.company_name or account.name,
        "company_logo": None,
        "email": account.email,
        "telephone": account.telephone,
        "address": address.street if address else "",
        "house_number": address.house_number if address else "",
        "postal_code": address.postal_code if address else "",
        "city": address.city if address else "",
        "country": address.country if address else "",
        "registered": account.date_created.strftime("%Y-%m-%d %H:%M:%S"),
        "data": [],
        "invoices": [],
        "modules": [],
    }


def sender_address_payload(address: SenderAddress) -> dict[str, Any]:
    """Return a sender address."""
    return {
        "id": address.pk,
        "brand_id": address.brand_id,
        "company_name": address.company_name,
        "contact_name": address.contact_name,
        "email": address.email,
        "telephone": address.telephone,
        "street": address.street,
        "house_number": address.house_number,
        "postal_box": address.postal_box,
        "postal_code": address.postal_code,
        "city": address.city,
        "country": address.country,
        "country_state": address.country_state,
        "vat_number": address.vat_number,
        "eori_number": address.eori_number,
    }


def contract_payload(contract: CarrierContract) -> dict[str, Any]:
    """Return a contract without its credentials."""
    names = {carrier.code: carrier.name for carrier in registry.CARRIERS.values()}
    code = contract.carrier
    return {
        "id": contract.pk,
        "carrier": {"code": code, "name": names.get(code, code)},
        "client_id": None,
        "name": contract.name,
        "country": None,
        "is_active": True,
        "is_default": contract.is_default,
    }


def brand_payload(brand: Brand) -> dict[str, Any]:
    """Return a brand."""
    return {
        "id": brand.pk,
        "name": brand.name,
        "domain": brand.domain,
        "website": brand.website,
        "color": brand.color,
        "secondary_color": brand.secondary_color,
        "notify_reply_to_email": brand.notify_reply_to_email,
        "notify_bcc_email": "",
        "hide_powered_by": False,
        "free_text": "",
        "print_logo": None,
        "screen_logo": None,
        "screen_thumb": None,
    }


def integration_payload(integration: Integration) -> dict[str, Any]:
    """Return an integration; its times are ISO 8601."""
    hook = getattr(integration, "webhook", None)
    return {
        "id": integration.pk,
        "shop_name": integration.shop_name,
        "shop_url": integration.shop_url,
        "system": integration.system,
        "failing_since": integration.failing_since and integration.failing_since.isoformat(),
        "last_fetch": integration.last_fetch and integration.last_fetch.isoformat(),
        "last_updated_at": integration.last_updated_at.isoformat(),
        "service_point_enabled": integration.service_point_enabled,
        "service_point_carriers": [],
        "webhook_active": bool(hook and hook.is_active),
        "webhook_url": hook.url if hook else "",
    }
