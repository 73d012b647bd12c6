"""Colibri Express: knows its customers' references."""

from decimal import Decimal

from carriers.simulator.latency import Latency
from carriers.simulator.spec import CarrierSpec, Product

spec = CarrierSpec(
    code="colibri",
    name="Colibri Express",
    shape="json_items",
    repeats="dedup",
    latency=Latency(0.4, 1.5),
    tracking="CX{:010d}",
    products={
        20: Product("Colibri Express 0-5kg", 1, 5_000, Decimal("3.10")),
        21: Product("Colibri Express 5-31kg", 5_000, 31_000, Decimal("6.35")),
    },
)
