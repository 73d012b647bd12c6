"""Tortoise Post: ten seconds, which the benchmarks are about."""

from decimal import Decimal

from carriers.simulator.latency import fixed
from carriers.simulator.spec import CarrierSpec, Product

spec = CarrierSpec(
    code="tortoise",
    name="Tortoise Post",
    shape="json_label",
    repeats="lookup",
    latency=fixed(10.0),
    tracking="TP{:010d}",
    products={10: Product("Tortoise Post Standard 0-23kg", 1, 23_000, Decimal("4.25"))},
)
