"""PostNL: the quick one, with the free test method."""

from decimal import Decimal

from carriers.simulator.latency import fixed
from carriers.simulator.spec import CarrierSpec, Product

spec = CarrierSpec(
    code="postnl",
    name="PostNL",
    shape="json_label",
    repeats="lookup",
    latency=fixed(0.02),
    tracking="3SABC{:010d}",
    # The free test method: any weight that a person would try it with.
    products={8: Product("Unstamped letter", 1, 31_000, Decimal("0.00"))},
)
