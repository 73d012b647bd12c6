"""Kinds of fields that clients may send: texts, numbers, goods."""

import json
import re
from decimal import Decimal
from functools import partial
from typing import Any

from rest_framework import serializers
from rest_framework.fields import empty

from parcels import limits

BLANK = "This field cannot be blank."
NUMBER = "A valid number is required."
# What Python reads in a number, and no client means: "1_0", the digits of other scripts.
ODD = re.compile(r"_|[^\x00-\x7f]")


class Text(serializers.CharField):
    """A string of the dialect's length; null is the same as leaving it out."""

    default_error_messages = {"blank": BLANK, "null": BLANK}

    def __init__(self, **options: Any) -> None:
        options.setdefault("max_length", limits.TEXT)
        if not options.get("required", True) or "default" in options:
            options.setdefault("allow_null", True)
            options.setdefault("allow_blank", True)
        super().__init__(**options)


def optional(**options: Any) -> Text:
    """Return a string field that may be missing, blank or null."""
    return Text(required=False, **options)


class Whole(serializers.IntegerField):
    """A whole number; of what is ODD nothing is left to read."""

    re_decimal = re.compile(rf"\.0*\s*$|^.*(?:{ODD.pattern}).*$", re.DOTALL)


def whole(**options: Any) -> Whole:
    """Return an optional whole number that fits the database."""
    return Whole(
        **{"required": False, "allow_null": True, "max_value": limits.INTEGER, "min_value": 0}
        | options
    )


def amount(digits: int, places: int, **options: Any) -> serializers.DecimalField:
    """Return an optional decimal, not negative; its serializer refuses what is ODD."""
    defaults: dict[str, Any] = {"min_value": Decimal(0), "required": False, "allow_null": True}
    return serializers.DecimalField(max_digits=digits, decimal_places=places, **defaults | options)


class Properties(serializers.JSONField):
    """Free JSON of a bounded size."""

    def to_internal_value(self, data: Any) -> Any:
        if len(json.dumps(data)) > limits.PROPERTIES:
            raise serializers.ValidationError(f"At most {limits.PROPERTIES} bytes of JSON.")
        return super().to_internal_value(data)


_item_text = partial(Text, default="", allow_null=False)


class ItemIn(serializers.Serializer):
    """One kind of goods inside a parcel. Nothing in it may be null."""

    description = _item_text()
    hs_code = _item_text(max_length=limits.HS_CODE)
    origin_country = _item_text(max_length=3)
    product_id = _item_text()
    item_id = _item_text()
    properties = Properties(required=False)
    quantity = Whole(default=1, min_value=1, max_value=limits.INTEGER)
    sku = _item_text()
    value = amount(12, 2, allow_null=False)
    weight = amount(9, 3, allow_null=False)
    mid_code = _item_text(max_length=limits.MID_CODE)

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        attrs: dict[str, Any] = super().to_internal_value(data)
        if odd := {n: [NUMBER] for n in ("value", "weight") if ODD.search(str(data.get(n)))}:
            raise serializers.ValidationError(odd)
        return attrs

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Make it plain JSON: every text is there, decimals as the dialect shows them."""
        # Not by the fields' defaults alone: a partial update skips them.
        for name, field in self.fields.items():
            if field.default is not empty:
                attrs.setdefault(name, field.default)
        for name, places in (("value", 2), ("weight", 3)):
            if name in attrs:
                attrs[name] = f"{attrs[name]:z.{places}f}"
        return attrs
