"""Lantern Freight: can't be asked what it has sold."""

from decimal import Decimal

from carriers.simulator.latency import Latency
from carriers.simulator.spec import CarrierSpec, Product

spec = CarrierSpec(
    code="lantern",
    name="Lantern Freight",
    shape="soap",
    repeats="none",
    latency=Latency(2.0, 6.0),
    tracking="LF{:010d}",
    products={30: Product("Lantern Freight 0-70kg", 1, 70_000, Decimal("12.80"))},
)
