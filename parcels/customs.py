"""Which customs documents a parcel has, and what they need to be filled in."""

from __future__ import annotations

from typing import Literal

from carriers.methods import EUROPEAN_UNION
from parcels.models import Parcel

Kind = Literal["cn23", "cn23-default", "commercial-invoice"]
# Each with its paper size: the CN23 is put on the parcel beside the label, or on a sheet.
SIZES: dict[Kind, str] = {"cn23": "a6", "cn23-default": "a4", "commercial-invoice": "a4"}
# Monaco is in France's customs territory, so in the union's.
CUSTOMS_UNION = {*EUROPEAN_UNION, "MC"}
# A CN23 has these of each item; the others of what is traded only.
_OF_ALL = ("description", "value", "weight")
_OF_GOODS = ("hs_code", "origin_country")
# The dialect's customs_shipment_type: gift, documents, returned goods.
_NOT_TRADED = {0, 1, 4}


def leaves_union(parcel: Parcel) -> bool:
    """Tell whether a parcel leaves the EU customs union.

    Without a sender country it is sent from inside the union, where the carriers are.
    """
    origin = parcel.from_address.get("country", "")
    return parcel.country not in CUSTOMS_UNION and (not origin or origin in CUSTOMS_UNION)


def customs_kinds(parcel: Parcel) -> tuple[Kind, ...]:
    """Return what a parcel needs that leaves the union; its goods must be known."""
    return tuple(SIZES) if parcel.parcel_items and leaves_union(parcel) else ()


def customs_errors(parcel: Parcel) -> dict[str, list[str]]:
    """Return by field what is missing of a parcel that leaves the union."""
    if not leaves_union(parcel):
        return {}
    if not parcel.parcel_items:
        return {"parcel_items": [f"Customs need them on the way to {parcel.country}."]}
    needed = _OF_ALL if parcel.customs_shipment_type in _NOT_TRADED else _OF_ALL + _OF_GOODS
    missing = [name for name in needed if not all(item.get(name) for item in parcel.parcel_items)]
    return (
        {"parcel_items": [f"Customs need of each item: {', '.join(missing)}."]} if missing else {}
    )
