"""The five carriers: what they are called, sell and can do about a lost answer."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from carriers.simulator.latency import Latency, fixed

Repeats = Literal["lookup", "dedup", "none"]


@dataclass(frozen=True, slots=True)
class Product:
    """A shipping method of a carrier; weights in grams, both ends included."""

    name: str
    low: int
    high: int
    price: Decimal


@dataclass(frozen=True, slots=True)
class CarrierSpec:
    """A carrier as it is before anybody sets anything."""

    code: str
    name: str
    shape: str
    repeats: Repeats
    port: int
    latency: Latency
    tracking: str  # str.format pattern for ten digits
    products: dict[int, Product]


# Prices are plausible list prices; what matters is that a wrong purchase costs something, and
# that those of two carriers never add up to the same sum by chance.
CATALOGUE: dict[str, CarrierSpec] = {
    spec.code: spec
    for spec in (
        CarrierSpec(
            code="postnl",
            name="PostNL",
            shape="json_label",
            repeats="lookup",
            port=9001,
            latency=fixed(0.02),
            tracking="3SABC{:010d}",
            # The free test method: any weight that a person would try it with.
            products={8: Product("Unstamped letter", 1, 31_000, Decimal("0.00"))},
        ),
        CarrierSpec(
            code="tortoise",
            name="Tortoise Post",
            shape="json_label",
            repeats="lookup",
            port=9002,
            latency=fixed(10.0),
            tracking="TP{:010d}",
            products={10: Product("Tortoise Post Standard 0-23kg", 1, 23_000, Decimal("4.25"))},
        ),
        CarrierSpec(
            code="colibri",
            name="Colibri Express",
            shape="json_items",
            repeats="dedup",
            port=9003,
            latency=Latency(0.4, 1.5),
            tracking="CX{:010d}",
            products={
                20: Product("Colibri Express 0-5kg", 1, 5_000, Decimal("3.10")),
                21: Product("Colibri Express 5-31kg", 5_000, 31_000, Decimal("6.35")),
            },
        ),
        CarrierSpec(
            code="lantern",
            name="Lantern Freight",
            shape="soap",
            repeats="none",
            port=9004,
            latency=Latency(2.0, 6.0),
            tracking="LF{:010d}",
            products={30: Product("Lantern Freight 0-70kg", 1, 70_000, Decimal("12.80"))},
        ),
        CarrierSpec(
            code="meridian",
            name="Meridian Mail",
            shape="two_step",
            repeats="lookup",
            port=9005,
            latency=Latency(1.5, 5.0),
            tracking="MM{:010d}",
            products={40: Product("Meridian Mail 0-20kg", 1, 20_000, Decimal("5.45"))},
        ),
    )
}
