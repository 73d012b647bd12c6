"""What the dialect shows: a parcel, and the whole answer to a request.

Plain functions and not serializers: this is the hottest read, and it only reads. The same question
gives the same bytes, in a web worker or in Celery: the process that records the outcome writes a
held client's answer, and it must be that of a slow synchronous view.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, Literal

from django.core.signing import BadSignature, Signer
from django.http import HttpResponse
from django_countries import countries
from rest_framework.renderers import JSONRenderer

from carriers import registry
from carriers.methods import EUROPEAN_UNION
from parcels.models import Parcel
from parcels.statuses import WITHOUT_LABEL, Status, status_payload

# Customs documents and their paper: the CN23 is put on the parcel beside the label, or on a sheet.
CUSTOMS_PAPERS = {"cn23": "a6", "cn23-default": "a4", "commercial-invoice": "a4"}
# Monaco is in France's customs territory, so in the union's.
CUSTOMS_UNION = {*EUROPEAN_UNION, "MC"}
_TRACKING_PAGE = "tracking page"
_HOUSE_NUMBER = re.compile(r"^(?P<street>.*\D)\s+(?P<number>\d+\s*[\w/-]{0,6})$")
# Shown as they are stored.
_PLAIN = (
    *("order_number", "shipment_uuid", "external_order_id", "external_shipment_id"),
    *("external_reference", "reference", "is_return", "note", "to_service_point", "to_state"),
    *("to_post_number", "insured_value", "total_order_value_currency", "collo_nr", "collo_count"),
    *("parcel_items", "customs_invoice_nr", "customs_shipment_type"),
    "shipping_method_checkout_name",
)
# Shown with two places.
_DECIMALS = ("total_order_value", "length", "width", "height")


@dataclass(frozen=True, slots=True)
class Question:
    """The part of a request on which the answer's form depends; plain values, for a JSON column."""

    parcels: list[int]
    base: str  # what absolute URLs begin with
    path: str  # of the request, for error bodies
    many: bool = False  # asked as {"parcels": […]}
    errors: Literal["", "verbose", "verbose-carrier"] = ""
    preferred: str = ""  # what Preference-Applied says on an answer without the label
    # Of a batch with errors=verbose: the invalid ones, as sent, with their errors.
    failed: list[dict[str, Any]] = field(default_factory=list)

    @property
    def creates(self) -> bool:
        """Tell a POST or PUT of parcels from a GET of one."""
        return self.path.rstrip("/").endswith("/parcels")


def final_answer(question: Question, parcels: Sequence[Parcel]) -> HttpResponse:
    """Answer with the parcels as they are, in the order of the question."""
    asked_for = parcels if question.many else parcels[:1]
    show = partial(parcel_payload, base=question.base, errors=question.errors)
    failed = Status.ANNOUNCEMENT_FAILED if question.errors == "verbose-carrier" else None
    refused = [parcel for parcel in asked_for if parcel.status == failed]
    status, payload = 200, dict[str, Any]()
    if question.many:
        payload["parcels"] = [show(parcel) for parcel in asked_for if parcel not in refused]
        if question.errors:
            payload["failed_parcels"] = question.failed + [
                {"parcel": show(parcel), "errors": {"non_field_errors": [parcel.carrier_error]}}
                for parcel in refused
            ]
    elif refused and question.creates:
        message = f"non_field_errors: '{refused[0].carrier_error}'"
        path = question.path.lstrip("/")
        status, payload = 400, {"error": {"code": 400, "request": path, "message": message}}
    else:
        payload["parcel"] = show(parcels[0])
    # JSON exactly as the API's renderer writes it.
    content = JSONRenderer().render(payload)
    return HttpResponse(content, status=status, content_type="application/json")


def parcel_payload(parcel: Parcel, base: str, *, errors: str = "") -> dict[str, Any]:
    """Return the parcel as a response shows it.

    `base` is what absolute URLs begin with, e.g. "https://shop.example". With
    `errors="verbose-carrier"` a refusal's cause is there, as `errors`.
    """
    street, number = divide_address(parcel.address, parcel.house_number)
    labelled = bool(parcel.tracking_number) and parcel.status not in WITHOUT_LABEL
    link = f"{base}/api/v2/parcels/{parcel.pk}/documents"
    # Of goods that are not known (any more) there are none.
    has_papers = labelled and parcel.parcel_items and leaves_union(parcel)
    papers = CUSTOMS_PAPERS if has_papers else {}
    shipment = None
    if parcel.shipping_method is not None:
        method = registry.SHIPPING_METHODS.get(parcel.shipping_method)
        shipment = {"id": parcel.shipping_method, "name": method.name if method else ""}
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
            for kind, size in ({"label": "a6"} | papers).items()
            if labelled
        ],
        "customs_declaration": {
            "normal_printer": f"{link}/cn23-default",
            "label_printer": f"{link}/cn23",
        }
        if papers
        else {},
        "status": status_payload(parcel.status),
        "data": {},
        "country": country_payload(parcel.country),
        "shipment": shipment,
        "shipping_method": parcel.shipping_method,
        "carrier": {"code": parcel.carrier},
        "contract": parcel.contract_id,
        "type": "parcel",
        "colli_uuid": str(parcel.colli_uuid),
        "awb_tracking_number": None,
        "box_number": None,
        "total_insured_value": parcel.insured_value,
        **{
            name: None if (value := getattr(parcel, name)) is None else f"{value:z.2f}"
            for name in _DECIMALS
        },
        **{name: getattr(parcel, name) for name in _PLAIN},
    }
    if errors == "verbose-carrier" and parcel.carrier_error:
        payload["errors"] = {"non_field_errors": [parcel.carrier_error]}
    return payload


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
        street = address.removesuffix(house_number)
        pair = street[-1:], house_number[0]
        # The end of a word or of another number is none: "Via Roma" and "a", "Kade 112" and "12".
        if pair[0] in "-/" or all(map(str.isalpha, pair)) or all(map(str.isdigit, pair)):
            street = address
        return street.strip(" ,") or address, house_number
    match = _HOUSE_NUMBER.match(address.strip())
    return (match["street"].strip(), match["number"]) if match else (address, "")


def label_payload(parcel_id: int, base: str) -> dict[str, Any]:
    """Return the label's addresses: four quadrants of an A4 sheet, and A6."""
    sheet = f"{base}/api/v2/labels/normal_printer/{parcel_id}?start_from="
    return {
        "normal_printer": [f"{sheet}{quadrant}" for quadrant in range(4)],
        "label_printer": f"{base}/api/v2/labels/label_printer/{parcel_id}",
    }


def tracking_url(parcel: Parcel, base: str) -> str:
    """Return the public page on which a parcel is followed; empty where there is none yet.

    Its last part is the id, signed, so that none is guessed. It is always the same for a parcel,
    and valid while SECRET_KEY is used or among the fallbacks.
    """
    if not parcel.tracking_number:
        return ""
    return f"{base}/tracking/{Signer(salt=_TRACKING_PAGE, sep='.').sign(str(parcel.pk))}"


def leaves_union(parcel: Parcel) -> bool:
    """Tell whether a parcel leaves the EU customs union.

    Without a sender country it is sent from inside the union, where the carriers are.
    """
    origin = parcel.from_address.get("country", "")
    return parcel.country not in CUSTOMS_UNION and (not origin or origin in CUSTOMS_UNION)


def parcel_id_of(token: str) -> int | None:
    """Return the id of a tracking page that we signed; None when it was somebody else."""
    try:
        return int(Signer(salt=_TRACKING_PAGE, sep=".").unsign(token))
    except BadSignature:
        return None
