"""A simulated carrier's name, products, and what it offers for a lost answer."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from carriers.simulator.latency import Latency

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
    latency: Latency
    tracking: str  # str.format pattern for ten digits
    products: dict[int, Product]
