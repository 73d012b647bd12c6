"""What an adapter is given, and gives to its transport: plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Credentials = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Address:
    """An address under the field names that every carrier uses; `country` is ISO 3166 alpha-2."""

    name: str = ""
    company: str = ""
    street: str = ""
    house_number: str = ""
    street_2: str = ""
    postal_code: str = ""
    city: str = ""
    state: str = ""
    country: str = ""
    email: str = ""
    phone: str = ""


@dataclass(frozen=True, slots=True)
class Consignment:
    """All that an adapter needs to announce one parcel.

    `reference` is what the carrier knows it by, the same over all tries; `product` the shipping
    method's id. The credentials are kept out of the repr, which ends up in logs.
    """

    reference: str
    product: str
    receiver: Address
    sender: Address
    weight_g: int
    credentials: Credentials = field(repr=False)


@dataclass(frozen=True, slots=True)
class Purchase:
    """What is known of a label bought earlier: each carrier voids by another of these."""

    reference: str
    carrier_id: str
    tracking_number: str


@dataclass(frozen=True, slots=True)
class CarrierRequest:
    """One HTTP request to a carrier; `path` is relative to the carrier's base URL.

    `acts`: the carrier may sell a label on it, or take one back, from its first byte on.
    `nothing_made`: the carrier has promised that whatever was sent before bought nothing.
    """

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    acts: bool = False
    nothing_made: bool = False


@dataclass(frozen=True, slots=True)
class CarrierResponse:
    """One complete HTTP answer; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
