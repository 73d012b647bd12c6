"""Meridian Mail: sells in two steps."""

from decimal import Decimal

from carriers.simulator.latency import Latency
from carriers.simulator.spec import CarrierSpec, Product

spec = CarrierSpec(
    code="meridian",
    name="Meridian Mail",
    shape="two_step",
    repeats="lookup",
    latency=Latency(1.5, 5.0),
    tracking="MM{:010d}",
    products={40: Product("Meridian Mail 0-20kg", 1, 20_000, Decimal("5.45"))},
)
