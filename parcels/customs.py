"""Which customs documents a parcel has."""

from __future__ import annotations

from typing import Literal

from carriers.methods import EUROPEAN_UNION
from parcels.models import Parcel

Kind = Literal["cn23", "cn23-default", "commercial-invoice"]
# Each with the paper that it is for: the CN23 goes on the parcel beside the label, or on a sheet.
SIZES: dict[Kind, str] = {"cn23": "a6", "cn23-default": "a4", "commercial-invoice": "a4"}
# Monaco is in France's customs territory, so in the union's.
CUSTOMS_UNION = {*EUROPEAN_UNION, "MC"}


def customs_kinds(parcel: Parcel) -> tuple[Kind, ...]:
    """Return what a parcel needs that leaves the EU customs union; its goods must be known.

    Who doesn't say where it comes from ships from inside: that is where the carriers are.
    """
    origin = parcel.from_address.get("country", "")
    leaves = parcel.country not in CUSTOMS_UNION and (not origin or origin in CUSTOMS_UNION)
    return tuple(SIZES) if leaves and parcel.parcel_items else ()
