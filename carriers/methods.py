"""Shipping methods as adapters declare them, and the countries that they serve."""

from dataclasses import dataclass
from decimal import Decimal

EUROPEAN_UNION: tuple[str, ...] = (
    *("AT", "BE", "BG", "CY", "CZ", "DE", "DK", "EE", "ES"),
    *("FI", "FR", "GR", "HR", "HU", "IE", "IT", "LT", "LU"),
    *("LV", "MT", "NL", "PL", "PT", "RO", "SE", "SI", "SK"),
)
# The three most asked for outside the customs union: labels with customs documents.
BEYOND: tuple[str, ...] = ("CH", "GB", "US")
EVERYWHERE: tuple[str, ...] = tuple(sorted(EUROPEAN_UNION + BEYOND))


@dataclass(frozen=True, slots=True)
class ShippingMethod:
    """A product of a carrier; weights in kg with three decimals, as the API shows them.

    `min_weight` is inclusive, `max_weight` too; `countries` are destinations in ISO 3166 alpha-2.
    `longest_side` and `length_and_girth` in cm, inclusive; the latter is the longest side and the
    way around the other two. By default those of the Universal Postal Union's larger parcels.
    """

    id: int
    name: str
    carrier: str
    min_weight: str
    max_weight: str
    price: Decimal
    countries: tuple[str, ...] = EVERYWHERE
    service_point_input: str = "none"
    longest_side: int = 200
    length_and_girth: int = 300
