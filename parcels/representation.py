"""A parcel as the dialect shows it.

Plain functions and not a serializer: this is the hottest read, and it only reads.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from django.core.signing import BadSignature, Signer
from django_countries import countries

from carriers import registry
from parcels.customs import SIZES, customs_kinds
from parcels.models import Parcel
from parcels.statuses import WITHOUT_LABEL, status_payload

_TRACKING_PAGE = "tracking page"
_HOUSE_NUMBER = re.compile(r"^(?P<street>.*\D)\s+(?P<number>\d+\s*[\w/-]{0,6})$")


@lru_cache(maxsize=512)
def country_payload(code: str) -> dict[str, str]:
    """Return `{"iso_2", "iso_3", "name"}`."""
    return {"iso_2": code, "iso_3": countries.alpha3(code), "name": countries.name(code)}


def dialect_date(moment: datetime | None) -> str | None:
    """Return `DD-MM-YYYY HH:MM:SS` in UTC."""
    return moment.astimezone(UTC).strftime("%d-%m-%Y %H:%M:%S") if moment else None


def divide_address(address: str, house_number: str) -> tuple[str, str]:
    """Return street and house number; the number is looked for in the address when not given."""
    if house_number:
        return address.removesuffix(house_number).strip() or address, house_number
    match = _HOUSE_NUMBER.match(address.strip())
    return (match["street"].strip(), match["number"]) if match else (address, "")


def parcel_payload(parcel: Parcel, base: str, *, errors: str = "") -> dict[str, Any]:
    """Return the parcel as a response shows it.

    `base` is what absolute URLs begin with, e.g. "https://shop.example". With
    `errors="verbose-carrier"` a refusal's cause is there, as `errors`.
    """
    street, number = divide_address(parcel.address, parcel.house_number)
    labelled = bool(parcel.tracking_number) and parcel.status not in WITHOUT_LABEL
    link = f"{base}/api/v2/parcels/{parcel.pk}/documents"
    kinds = customs_kinds(parcel) if labelled else ()
    payload = {
        "id": parcel.pk,
        "name": parcel.name,
        "company_name": parcel.company_name,
        "address": f"{street} {number}".strip(),
        "address_2": parcel.address_2,
        "address_divided": {"street": street, "house_number": number},
        "city": parcel.city,
        "postal_code": parcel.postal_code,
        "telephone": parcel.telephone,
        "email": parcel.email,
        "date_created": dialect_date(parcel.date_created),
        "date_updated": dialect_date(parcel.date_updated),
        "date_announced": dialect_date(parcel.date_announced),
        "tracking_number": parcel.tracking_number,
        "tracking_url": tracking_url(parcel, base),
        "weight": f"{parcel.weight:.3f}",
        "label": label_payload(parcel.pk, base) if labelled else {},
        "documents": [
            {"type": kind, "size": size, "link": f"{link}/{kind}"}
            for kind, size in [("label", "a6"), *((each, SIZES[each]) for each in kinds)]
            if labelled
        ],
        "customs_declaration": {
            "normal_printer": f"{link}/cn23-default",
            "label_printer": f"{link}/cn23",
        }
        if kinds
        else {},
        "status": status_payload(parcel.status),
        "data": {},
        "country": country_payload(parcel.country),
        "shipment": _shipment(parcel),
        "shipping_method": parcel.shipping_method,
        "carrier": {"code": parcel.carrier},
        "contract": parcel.contract_id,
        "type": "parcel",
        "colli_uuid": str(parcel.colli_uuid),
        "awb_tracking_number": None,
        "box_number": None,
        "total_order_value": _decimal(parcel.total_order_value, 2),
        "total_insured_value": parcel.insured_value,
        "length": _decimal(parcel.length, 2),
        "width": _decimal(parcel.width, 2),
        "height": _decimal(parcel.height, 2),
        **{name: getattr(parcel, name) for name in _PLAIN},
    }
    if errors == "verbose-carrier" and parcel.carrier_error:
        payload["errors"] = {"non_field_errors": [parcel.carrier_error]}
    return payload


# Shown as they are stored.
_PLAIN = (
    "order_number",
    "shipment_uuid",
    "external_order_id",
    "external_shipment_id",
    "external_reference",
    "reference",
    "is_return",
    "note",
    "to_service_point",
    "to_state",
    "to_post_number",
    "insured_value",
    "total_order_value_currency",
    "collo_nr",
    "collo_count",
    "parcel_items",
    "customs_invoice_nr",
    "customs_shipment_type",
    "shipping_method_checkout_name",
)


def label_payload(parcel_id: int, base: str) -> dict[str, Any]:
    """Return the label's addresses: four quadrants of an A4 sheet, and A6."""
    sheet = f"{base}/api/v2/labels/normal_printer/{parcel_id}?start_from="
    return {
        "normal_printer": [f"{sheet}{quadrant}" for quadrant in range(4)],
        "label_printer": f"{base}/api/v2/labels/label_printer/{parcel_id}",
    }


def tracking_url(parcel: Parcel, base: str) -> str:
    """Return the public page on which a parcel is followed; empty where there is none yet."""
    return f"{base}/tracking/{tracking_token(parcel.pk)}" if parcel.tracking_number else ""


def _shipment(parcel: Parcel) -> dict[str, object] | None:
    if parcel.shipping_method is None:
        return None
    method = registry.SHIPPING_METHODS.get(parcel.shipping_method)
    return {"id": parcel.shipping_method, "name": method.name if method else ""}


def _decimal(value: Decimal | None, places: int) -> str | None:
    return None if value is None else f"{value:.{places}f}"


def tracking_token(parcel_id: int) -> str:
    """Return the last part of a tracking page's address: the id, signed, so that none is guessed.

    Always the same for a parcel, and valid while SECRET_KEY is used or among the fallbacks.
    """
    return Signer(salt=_TRACKING_PAGE, sep=".").sign(str(parcel_id))


def parcel_id_of(token: str) -> int | None:
    """Return the id that we signed; None when it was somebody else."""
    try:
        return int(Signer(salt=_TRACKING_PAGE, sep=".").unsign(token))
    except BadSignature:
        return None
