"""What a parcel needs to be announced, and what its shipping method can't do."""

from __future__ import annotations

from decimal import Decimal

from rest_framework.exceptions import ValidationError

from carriers import registry
from carriers.methods import ShippingMethod
from parcels.customs import customs_errors
from parcels.models import Account, Parcel
from parcels.services.fill import as_from

_SIDES = ("length", "width", "height")
Errors = dict[str, list[str]]


def make_announceable(parcel: Parcel, account: Account) -> None:
    """Send it from the default address if it says no other, and check it for its method.

    Before anything is stored. Doing it twice changes nothing.

    Raises:
        ValidationError: by field.
    """
    default = account.sender_address
    # A return comes from its sender; and an address that the parcel has is not completed from
    # another.
    if default and not parcel.is_return and not parcel.from_address.get("address_1"):
        parcel.sender_address = default.pk
        parcel.from_address = as_from(default) | parcel.from_address
    if parcel.shipping_method is None:
        raise ValidationError({"shipment": ["This field is required to announce a parcel."]})
    method = registry.shipping_method(parcel.shipping_method)
    errors = customs_errors(parcel) | _size_errors(parcel, method) | _method_errors(parcel, method)
    if errors:
        raise ValidationError(errors)


def _method_errors(parcel: Parcel, method: ShippingMethod) -> Errors:
    errors: Errors = {}
    if not Decimal(method.min_weight) <= parcel.weight <= Decimal(method.max_weight):
        errors["weight"] = [f"{method.name} takes {method.min_weight} to {method.max_weight} kg."]
    if parcel.country not in method.countries:
        errors["country"] = [f"{method.name} does not go to {parcel.country}."]
    # Refused and not ignored: otherwise the shop relies on insurance or an address that isn't used.
    if parcel.insured_value:
        errors["insured_value"] = [f"{method.name} can't be insured."]
    for name in ("to_service_point", "to_post_number"):
        if getattr(parcel, name) and method.service_point_input == "none":
            errors[name] = [f"{method.name} does not go to service points."]
    if parcel.contract and parcel.contract.carrier != method.carrier:
        errors["contract"] = [f"This contract is not with {method.carrier}."]
    return errors


def _size_errors(parcel: Parcel, method: ShippingMethod) -> Errors:
    sides = {name: getattr(parcel, name) for name in _SIDES}
    if None in sides.values():
        return {}
    longest = max(sides, key=lambda name: sides[name])
    length = sides[longest]
    with_girth = length + 2 * (sum(sides.values()) - length)
    if length <= method.longest_side and with_girth <= method.length_and_girth:
        return {}
    limits = f"{method.longest_side} cm, and {method.length_and_girth} cm with its girth"
    return {longest: [f"{method.name} takes a length of {limits}."]}
