"""From what a client sent to a parcel's columns; for a new parcel and for a changed one."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import ValidationError

from carriers import registry
from parcels.models import Account, CarrierContract, Parcel, SenderAddress
from parcels.serializers import FROM_FIELDS

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


class Owned:
    """The rows of one account that a request names by id; each is looked up once."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self._contracts: dict[int, CarrierContract | None] = {}
        self._addresses: dict[int, SenderAddress | None] = {}

    def contract(self, contract_id: int) -> CarrierContract:
        """Return the account's contract.

        Raises:
            ValidationError: there is none; somebody else's is none, too.
        """
        if contract_id not in self._contracts:
            found = CarrierContract.objects.filter(account=self.account, pk=contract_id)
            self._contracts[contract_id] = found.first()
        contract = self._contracts[contract_id]
        if contract is None:
            raise ValidationError({"contract": ["There is no such contract."]})
        return contract

    def sender_address(self, address_id: int) -> SenderAddress:
        """Return the account's sender address.

        Raises:
            ValidationError: there is none; somebody else's is none, too.
        """
        if address_id not in self._addresses:
            found = SenderAddress.objects.filter(account=self.account, pk=address_id)
            self._addresses[address_id] = found.first()
        address = self._addresses[address_id]
        if address is None:
            raise ValidationError({"sender_address": ["There is no such sender address."]})
        return address


def fill(parcel: Parcel, fields: dict[str, Any], owned: Owned) -> None:
    """Set the parcel's columns from `ParcelIn`'s fields; what is missing stays.

    Raises:
        ValidationError: a contract, sender address or shipping method that there is not.
    """
    for name in _COPIED:
        if fields.get(name) is not None:
            setattr(parcel, name, fields[name])
    parcel.external_reference = parcel.external_reference or None
    parcel.to_state = fields.get("country_state") or fields.get("to_state") or parcel.to_state
    insured = fields.get("total_insured_value"), fields.get("insured_value")
    parcel.insured_value = next(
        (value for value in insured if value is not None), parcel.insured_value
    )
    parcel.shipping_method = (
        fields.get("shipment") or fields.get("shipping_method") or parcel.shipping_method
    )
    if fields.get("contract") is not None:
        parcel.contract = owned.contract(fields["contract"])
    _fill_sender(parcel, fields, owned)
    if parcel.shipping_method is not None:
        method = registry.SHIPPING_METHODS.get(parcel.shipping_method)
        if method is None:
            raise ValidationError({"shipment": ["There is no such shipping method."]})
        parcel.carrier = method.carrier


def _fill_sender(parcel: Parcel, fields: dict[str, Any], owned: Owned) -> None:
    """Copy the sender: a sender address as it is now, under what the parcel says itself."""
    if fields.get("sender_address") is not None:
        parcel.sender_address = fields["sender_address"]
        parcel.from_address = as_from(owned.sender_address(fields["sender_address"]))
    said = {name.removeprefix("from_"): fields[name] for name in FROM_FIELDS if fields.get(name)}
    parcel.from_address = parcel.from_address | said
    if parcel.is_return:
        missing = [name for name in _RETURNS_NEED if not parcel.from_address.get(name)]
        if missing:
            needed = "This field is required for a return."
            raise ValidationError({f"from_{name}": [needed] for name in missing})


def as_from(address: SenderAddress) -> dict[str, str]:
    """Return a sender address as a parcel's `from_address`."""
    copied = {
        "name": address.contact_name,
        "company_name": address.company_name,
        "address_1": address.street,
        "house_number": address.house_number,
        "city": address.city,
        "postal_code": address.postal_code,
        "state": address.country_state,
        "country": address.country,
        "telephone": address.telephone,
        "email": address.email,
    }
    return {name: value for name, value in copied.items() if value}
