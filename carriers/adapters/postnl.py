"""PostNL: JSON with base64 documents; here with its free test letter."""

from decimal import Decimal

from carriers.methods import ShippingMethod
from carriers.shapes.json_label import JsonLabelCarrier


class PostNL(JsonLabelCarrier):
    """The free test carrier: fast, cheap, with a reliable lookup."""

    code = "postnl"
    name = "PostNL"
    # Its documentation: what is not booked within 30 s is given up.
    longest_work = 30.0
    # Why 60 s: as long again, for its list to show what was booked at the last moment.
    settling = 60.0
    methods = (ShippingMethod(8, "Unstamped letter", "postnl", "0.001", "31.000", Decimal("0.00")),)


carrier = PostNL()
