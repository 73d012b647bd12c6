"""A parcel as a client describes it, and what every carrier checks before taking it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from carriers.simulator.spec import CarrierSpec

ADDRESS_FIELDS = (
    "name",
    "company",
    "street",
    "house_number",
    "street_2",
    "postal_code",
    "city",
    "state",
    "country",
    "email",
    "phone",
)
# The house number is missing here: many addresses have it in the street.
_REQUIRED = ("name", "street", "postal_code", "city", "country")

# The European Union, its neighbours, and two far ones so that a long address is tried, too.
SERVED = frozenset(
    country
    for group in (
        "AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IT LT LU LV MT NL PL PT RO SE SI SK",
        "CH GB IS LI MC NO",
        "US CA",
    )
    for country in group.split()
)

# 100 fits every carrier's field; printable ASCII needs no escape in a ledger, a URL or XML.
_REFERENCE = re.compile(r"[\x20-\x7e]{1,100}")
# Nine digits of grams are a thousand tonnes.
_WHOLE = re.compile(r"[0-9]{1,9}")


class Malformed(Exception):
    """The body is not what the wire format says."""


class Refusal(Exception):
    """The carrier declines a parcel, for a documented reason; nothing was made."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Parcel:
    """One package to be announced; `receiver` has every address field, missing ones empty."""

    reference: str
    product: int
    grams: int
    receiver: Mapping[str, str]


def parcel_from(reference: object, product: object, grams: object, receiver: object) -> Parcel:
    """Make a parcel of whatever a body held; raises Malformed."""
    return Parcel(
        reference=reference_from(reference),
        product=_whole("product", product),
        grams=_whole("weight", grams),
        receiver=_address(receiver),
    )


def reference_from(value: object) -> str:
    """Return a usable reference; raises Malformed."""
    if not isinstance(value, str) or not _REFERENCE.fullmatch(value):
        raise Malformed("the reference must be 1 to 100 printable ASCII characters")
    return value


def check(parcel: Parcel, spec: CarrierSpec) -> None:
    """Raise the documented Refusal where this carrier doesn't take this parcel."""
    missing = [field for field in _REQUIRED if not parcel.receiver[field].strip()]
    if missing:
        raise Refusal("ADDRESS_INVALID", f"The address is invalid: {', '.join(missing)} is missing")
    if parcel.receiver["country"] not in SERVED:
        raise Refusal("COUNTRY_NOT_SERVED", f"{spec.name} does not deliver to this country")
    product = spec.products.get(parcel.product)
    if product is None:
        raise Refusal("PRODUCT_UNKNOWN", f"{spec.name} has no product {parcel.product}")
    if not product.low <= parcel.grams <= product.high:
        raise Refusal("WEIGHT_OUT_OF_RANGE", f"{product.name} does not take {parcel.grams} g")


def _whole(name: str, value: object) -> int:
    text = str(value)
    if isinstance(value, bool) or not _WHOLE.fullmatch(text):
        raise Malformed(f"the {name} must be a whole number")
    return int(text)


def _address(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise Malformed("the receiver must be an object")
    # null is how many a client writes "none".
    given = {name: value.get(name) for name in ADDRESS_FIELDS}
    fields = {name: "" if text is None else text for name, text in given.items()}
    wrong = [name for name, text in fields.items() if not isinstance(text, str)]
    if wrong:
        raise Malformed(f"the receiver's {', '.join(wrong)} must be text")
    return fields
