"""Make a parcel's row: from what a client sent to columns, and fit to be announced.

For a new parcel and for a changed one.
"""

from decimal import Decimal
from typing import Any

from rest_framework.exceptions import ValidationError

from carriers import registry
from carriers.methods import EVERYWHERE, ShippingMethod
from parcels.fields import BLANK
from parcels.models import Account, CarrierContract, Parcel, SenderAddress
from parcels.representation import leaves_union
from parcels.selectors import Owned
from parcels.serializers import FROM_FIELDS, SIDES

# Copied from the request as they are; missing or null leaves what is there.
_COPIED = (
    *("name", "company_name", "address", "address_2", "house_number", "city", "postal_code"),
    *("country", "telephone", "email", "order_number", "external_reference", "reference"),
    *("external_order_id", "external_shipment_id", "shipment_uuid", "note", "weight"),
    *("length", "width", "height", "shipping_method_checkout_name", "apply_shipping_rules"),
    *("is_return", "to_service_point", "to_post_number", "total_order_value"),
    *("total_order_value_currency", "customs_invoice_nr", "customs_shipment_type"),
    *("parcel_items",),
)
# A return's carrier must know where to fetch it.
_RETURNS_NEED = ("name", "address_1", "city", "postal_code", "country")
# A CN23 has these of each item; the others of what is traded only.
_OF_ALL = ("description", "value", "weight")
_OF_GOODS = ("hs_code", "origin_country")
# The dialect's customs_shipment_type: gift, documents, returned goods.
_NOT_TRADED = {0, 1, 4}

# A sender address' fields, by those of a parcel's `from_address`.
_SAME = ("company_name", "house_number", "city", "postal_code", "country", "telephone", "email")
_AS_FROM = {"name": "contact_name", "address_1": "street", "state": "country_state"}
_AS_FROM |= {name: name for name in _SAME}


def fill(parcel: Parcel, fields: dict[str, Any], owned: Owned) -> None:
    """Set the parcel's columns from `ParcelIn`'s fields; what is missing stays.

    Raises:
        ValidationError: a contract, sender address or shipping method that there is not; or what a
            return needs is missing, or the house number, of which the address has none.
    """
    for name in _COPIED:
        if fields.get(name) is not None:
            setattr(parcel, name, fields[name])
    if fields.get("house_number") == "" and not any(map(str.isdigit, parcel.address)):
        raise ValidationError({"house_number": [BLANK]})
    parcel.external_reference = parcel.external_reference or None
    # Two names of one: a blank beside a state must not drop it, nor a 0 beside an amount insurance.
    states = [fields[n] for n in ("country_state", "to_state") if fields.get(n) is not None]
    parcel.to_state = max(states, key=bool, default=parcel.to_state) or None
    insured = [fields.get(name) for name in ("insured_value", "total_insured_value")]
    parcel.insured_value = max((n for n in insured if n is not None), default=parcel.insured_value)
    shipment = fields.get("shipment") or fields.get("shipping_method")
    parcel.shipping_method = shipment or parcel.shipping_method
    if fields.get("contract") is not None:
        parcel.contract = owned.row(CarrierContract, "contract", fields["contract"])
    # A blank takes back. A sender address as it is now, under what the parcel says itself.
    stored = parcel.from_address.items()
    parcel.from_address = {n: text for n, text in stored if fields.get(f"from_{n}") != ""}
    if fields.get("sender_address") is not None:
        address = owned.row(SenderAddress, "sender_address", fields["sender_address"])
        parcel.sender_address, parcel.from_address = address.pk, _as_from(address)
    said = {name.removeprefix("from_"): fields[name] for name in FROM_FIELDS if fields.get(name)}
    parcel.from_address = parcel.from_address | said
    missing = [name for name in _RETURNS_NEED if not parcel.from_address.get(name)]
    if parcel.is_return and missing:
        needed = "This field is required for a return."
        raise ValidationError({f"from_{name}": [needed] for name in missing})
    if parcel.shipping_method is not None:
        method = registry.SHIPPING_METHODS.get(parcel.shipping_method)
        if method is None:
            raise ValidationError({"shipment": ["There is no such shipping method."]})
        parcel.carrier = method.carrier


def make_announceable(parcel: Parcel, account: Account) -> None:
    """Send it from the default address if it says no other, and check it for its method.

    Before anything is stored. Doing it twice changes nothing.

    Raises:
        ValidationError: by field.
    """
    default = account.sender_address
    # A return comes from its sender; and no address is completed from another.
    if default and not parcel.is_return and not parcel.from_address.get("address_1"):
        parcel.sender_address = default.pk
        parcel.from_address = _as_from(default) | parcel.from_address
    if not parcel.shipping_method:
        raise ValidationError({"shipment": ["This field is required to announce a parcel."]})
    method = registry.SHIPPING_METHODS.get(parcel.shipping_method)
    errors = _errors(parcel, method) if method else {"shipment": ["It isn't offered any more."]}
    if errors:
        raise ValidationError(errors)


def _errors(parcel: Parcel, method: ShippingMethod) -> dict[str, list[str]]:
    """Return by field what customs need of it, and what its method can't do."""
    errors: dict[str, list[str]] = {}
    if leaves_union(parcel):
        needed = _OF_ALL if parcel.customs_shipment_type in _NOT_TRADED else _OF_ALL + _OF_GOODS
        items = parcel.parcel_items or []
        missing = [n for n in needed if any(item.get(n, "") in ("", "0.000") for item in items)]
        if not items:
            errors["parcel_items"] = [f"Customs need them on the way to {parcel.country}."]
        elif missing:
            errors["parcel_items"] = [f"Customs need of each item: {', '.join(missing)}."]
    sides = {name: getattr(parcel, name) for name in SIDES}
    if None not in sides.values():
        longest = max(sides, key=lambda name: sides[name])
        length = sides[longest]
        with_girth = length + 2 * (sum(sides.values()) - length)
        if length > method.longest_side or with_girth > method.length_and_girth:
            limits = f"{method.longest_side} cm, and {method.length_and_girth} cm with its girth"
            errors[longest] = [f"{method.name} takes a length of {limits}."]
    if not Decimal(method.min_weight) <= parcel.weight <= Decimal(method.max_weight):
        errors["weight"] = [f"{method.name} takes {method.min_weight} to {method.max_weight} kg."]
    if parcel.country not in method.countries:
        errors["country"] = [f"{method.name} does not go to {parcel.country}."]
    if (origin := parcel.from_address.get("country")) and origin not in EVERYWHERE:
        field = "from_country" if parcel.is_return else "sender_address"
        errors[field] = [f"{method.name} is not sent from {origin}."]
    # Refused and not ignored: otherwise the shop relies on insurance or an address that isn't used.
    if parcel.insured_value:
        errors["insured_value"] = [f"{method.name} can't be insured."]
    for name in ("to_service_point", "to_post_number"):
        if getattr(parcel, name) and method.service_point_input == "none":
            errors[name] = [f"{method.name} does not go to service points."]
    if parcel.contract and parcel.contract.carrier != method.carrier:
        errors["contract"] = [f"This contract is not with {method.carrier}."]
    return errors


def _as_from(address: SenderAddress) -> dict[str, str]:
    """Return a sender address as a parcel's `from_address`."""
    copied = {name: getattr(address, own) for name, own in _AS_FROM.items()}
    return {name: value for name, value in copied.items() if value}
