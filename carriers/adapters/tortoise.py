"""Tortoise Post: the same JSON as PostNL's, ten seconds later."""

from __future__ import annotations

from decimal import Decimal

from carriers.methods import ShippingMethod
from carriers.shapes.json_label import JsonLabelCarrier


class TortoisePost(JsonLabelCarrier):
    """The slow carrier that the benchmarks are about."""

    code = "tortoise"
    name = "Tortoise Post"
    methods = (
        ShippingMethod(
            10, "Tortoise Post Standard 0-23kg", "tortoise", "0.001", "23.000", Decimal("4.25")
        ),
    )


carrier = TortoisePost()
