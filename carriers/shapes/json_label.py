"""The JSON shape with base64 documents, which PostNL and Tortoise Post share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from carriers.base import (
    Absent,
    Announced,
    Carrier,
    CarrierRequest,
    CarrierResponse,
    Consignment,
    Credentials,
    Found,
    LookupResult,
    Outcome,
    Purchase,
    Refused,
    Steps,
    Unknown,
    Voided,
    VoidResult,
    unsettled_lookup,
)
from carriers.classify import Phase, Promises
from carriers.errors import CarrierAnswerUnreadable
from carriers.shapes import documents, json_body


class JsonLabelCarrier(Carrier):
    """`POST /shipments`, `GET /shipments?reference=`, `DELETE /shipments/{id}`."""

    repeats = "lookup"
    promises = Promises(throttle_promises_nothing=True)
    credential_names = ("api_key",)

    def announce(self, consignment: Consignment) -> Steps[Outcome]:
        body = {
            "reference": consignment.reference,
            "product": consignment.product,
            "receiver": asdict(consignment.receiver),
            "sender": asdict(consignment.sender),
            "weight_g": consignment.weight_g,
        }
        headers = _headers(consignment.credentials)
        sent = json_body.dump(body)
        response = yield CarrierRequest("POST", "/shipments", headers, sent, buys=True)
        if response.status not in (200, 201):
            return self.settle(response, json_body.refusal(response.body))
        try:
            return _read_label(json_body.load(response.body), consignment.reference)
        except CarrierAnswerUnreadable as error:
            return Unknown("unreadable", str(error))

    def build_lookup(self, reference: str, credentials: Credentials) -> CarrierRequest:
        path = f"/shipments?reference={quote(reference, safe='')}"
        return CarrierRequest("GET", path, _headers(credentials))

    def parse_lookup(self, response: CarrierResponse, reference: str) -> LookupResult:
        if response.status != 200:
            return unsettled_lookup(response)
        shipments = json_body.members(json_body.load(response.body).get("shipments"), "shipments")
        found = tuple(_read_label(shipment, reference) for shipment in shipments)
        return Found(found) if found else Absent()

    def void(self, purchase: Purchase, credentials: Credentials) -> Steps[VoidResult]:
        path = f"/shipments/{quote(purchase.carrier_id, safe='')}"
        response = yield CarrierRequest("DELETE", path, _headers(credentials))
        if response.status == 204:
            return Voided()
        return self.settle(response, void_refusal(response), Phase.VOIDING)


def void_refusal(response: CarrierResponse) -> Refused | None:
    """Read why a label can't be cancelled, from the status where the body doesn't say."""
    by_status = {
        404: Refused("NOT_FOUND", "the carrier doesn't know this label"),
        409: Refused("NOT_VOIDABLE", "already voided or on its way"),
    }
    return json_body.refusal(response.body) or by_status.get(response.status)


def _headers(credentials: Credentials) -> dict[str, str]:
    token = credentials.get("api_key", "")
    return {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Accept": "application/json",
    }


def _read_label(said: Mapping[str, Any], reference: str) -> Announced:
    if said.get("reference") != reference:
        raise CarrierAnswerUnreadable("the answer is about another reference")
    label = json_body.member(said.get("label"), "the label")
    return documents.announced(
        carrier_id=said.get("shipment_id"),
        tracking=said.get("tracking_number"),
        cost=said.get("price"),
        pdf=label.get("pdf"),
        zpl=label.get("zpl"),
    )
