"""A parcel as clients may send it. Unknown fields are ignored, as the dialect does."""

from decimal import Decimal
from typing import Any

from django_countries import countries
from rest_framework import serializers

from parcels import limits
from parcels.fields import NUMBER, ODD, ItemIn, Text, Whole, amount, optional, whole

SIDES = ("length", "width", "height")
AMOUNTS = (*SIDES, "weight", "total_order_value")
SIZE = "Give length, width and height, or none of them."


class Country(serializers.Field):
    """A two-letter code; also the object in which a response shows a country.

    One that isn't required may be left blank.
    """

    def to_internal_value(self, data: Any) -> str:
        if data == "" and not self.required:
            return ""
        if isinstance(data, dict):
            data = data.get("iso_2")
        # In ASCII: the capitals of "ß" are "SS", South Sudan.
        code = data.strip().upper() if isinstance(data, str) and data.isascii() else ""
        if len(code) != 2 or countries.alpha2(code) != code:
            raise serializers.ValidationError("A two-letter country code is needed.")
        return code


class Shipment(Whole):
    """`{"id": 8}`, or a bare 8."""

    default_error_messages = {"invalid": "A shipping method's id is needed."}

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            data = data.get("id")
        if data is None or data == "":
            return None
        number = super().to_internal_value(data)
        if not 0 < number <= limits.INTEGER:
            raise serializers.ValidationError("There is no such shipping method.")
        return number


FROM_FIELDS = (
    *("from_name", "from_company_name", "from_address_1", "from_address_2", "from_house_number"),
    *("from_city", "from_postal_code", "from_state", "from_country"),
    *("from_telephone", "from_email"),
)


class ParcelIn(serializers.Serializer):
    """A parcel to make."""

    name = Text()
    company_name = optional()
    address = Text()
    address_2 = optional()
    house_number = optional()
    city = Text()
    postal_code = Text()
    country = Country()
    country_state = optional()
    to_state = optional()
    telephone = optional()
    email = optional()

    shipment = Shipment(required=False, allow_null=True)
    shipping_method = Shipment(required=False, allow_null=True)
    request_label = serializers.BooleanField(required=False, allow_null=True)
    requestLabel = serializers.BooleanField(required=False, allow_null=True)
    requestShipment = serializers.BooleanField(required=False, allow_null=True)
    request_label_async = serializers.BooleanField(required=False, allow_null=True)
    apply_shipping_rules = serializers.BooleanField(required=False, allow_null=True)
    shipping_method_checkout_name = optional()

    weight = amount(9, 3, min_value=Decimal("0.001"))
    length = amount(8, 2)
    width = amount(8, 2)
    height = amount(8, 2)
    quantity = whole(min_value=1, max_value=limits.COLLI)

    order_number = optional()
    external_reference = optional()
    external_order_id = optional()
    external_shipment_id = optional()
    shipment_uuid = optional()
    reference = optional()
    note = optional()

    contract = whole()
    sender_address = whole()
    to_service_point = whole()
    to_post_number = optional()
    insured_value = whole(max_value=limits.INSURED_VALUE)
    total_insured_value = whole(max_value=limits.INSURED_VALUE)
    total_order_value = amount(12, 2)
    total_order_value_currency = optional(max_length=3)
    customs_invoice_nr = optional()
    customs_shipment_type = whole(max_value=4)
    # Not `many=True`, which would hand `allow_null` on to the items.
    parcel_items: serializers.ListSerializer[Any] = serializers.ListSerializer(
        child=ItemIn(), required=False, allow_null=True, max_length=limits.ITEMS
    )

    is_return = serializers.BooleanField(required=False, allow_null=True)

    def get_fields(self) -> dict[str, serializers.Field]:
        fields = super().get_fields() | {name: optional() for name in FROM_FIELDS}
        fields["from_country"] = Country(required=False, allow_null=True)
        return fields

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        try:
            attrs: dict[str, Any] = super().to_internal_value(data)
        except serializers.ValidationError as error:
            if isinstance(error.detail, dict) and "country_state" in error.detail:
                error.detail["to_state"] = error.detail.pop("country_state")
            raise
        errors = {name: [NUMBER] for name in AMOUNTS if ODD.search(str(data.get(name)))}
        sides = [attrs.get(side) is not None for side in SIDES]
        if not self.partial and any(sides) and not all(sides):
            errors["non_field_errors"] = [SIZE]
        # Equal in each answer, which may be sent back.
        if len({attrs.get("insured_value"), attrs.get("total_insured_value")} - {None, 0}) > 1:
            errors["insured_value"] = ["Give insured_value or total_insured_value, not both."]
        if errors:
            raise serializers.ValidationError(errors)
        return attrs


# Made once: building sixty fields costs more than validating with them, and validating keeps
# nothing in the instance.
PARCEL_IN = ParcelIn()
# The same for a change: nothing is required.
PARCEL_CHANGE = ParcelIn(partial=True)
