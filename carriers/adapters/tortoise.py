"""Tortoise Post: the same JSON as PostNL's, ten seconds later."""

from decimal import Decimal

from carriers.methods import ShippingMethod
from carriers.shapes.json_label import JsonLabelCarrier


class TortoisePost(JsonLabelCarrier):
    """The slow carrier of the benchmarks."""

    code = "tortoise"
    name = "Tortoise Post"
    # Its documentation: what is not booked within 60 s, six times the usual, is given up.
    longest_work = 60.0
    # Why 90 s: half as long again, for its list to show what was booked at the last moment. More
    # would only delay the second purchase: a booking later than this is found by the late lookups.
    settling = 90.0
    methods = (
        ShippingMethod(
            10, "Tortoise Post Standard 0-23kg", "tortoise", "0.001", "23.000", Decimal("4.25")
        ),
    )


carrier = TortoisePost()
