"""JSON bodies, with every assumption checked; and the shape that PostNL and Tortoise Post share."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from carriers.base import Carrier, Steps, unsettled_lookup
from carriers.classify import Phase, Promises
from carriers.errors import CarrierAnswerUnreadable
from carriers.messages import CarrierRequest, CarrierResponse, Consignment, Credentials, Purchase
from carriers.outcomes import (
    Absent,
    Announced,
    Found,
    LookupResult,
    Outcome,
    Refused,
    Unknown,
    Voided,
    VoidResult,
)
from carriers.shapes import documents


class JsonLabelCarrier(Carrier):
    """`POST /shipments`, `GET /shipments?reference=`, `DELETE /shipments/{id}`."""

    repeats = "lookup"
    voids_by_id = True
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
        response = yield _request("POST", "/shipments", consignment.credentials, body, acts=True)
        if response.status not in (200, 201):
            return self.settle(response, refusal(response.body))
        try:
            return _read_label(load(response.body), consignment.reference)
        except CarrierAnswerUnreadable as error:
            return Unknown("unreadable", str(error))

    def build_lookup(self, reference: str, credentials: Credentials) -> CarrierRequest:
        path = f"/shipments?reference={quote(reference, safe='')}"
        return _request("GET", path, credentials)

    def parse_lookup(self, response: CarrierResponse, reference: str) -> LookupResult:
        if response.status != 200:
            return unsettled_lookup(response)
        said = load(response.body)
        shipments = members(said.get("shipments"), "shipments")
        found = tuple(_read_label(shipment, reference) for shipment in shipments)
        absent = Unknown("unreadable", "not only an empty list") if any(said.values()) else Absent()
        return Found(found) if found else absent

    def void(self, purchase: Purchase, credentials: Credentials) -> Steps[VoidResult]:
        path = f"/shipments/{quote(purchase.carrier_id, safe='')}"
        response = yield _request("DELETE", path, credentials, acts=True)
        if response.status == 204:
            return Voided()
        return self.settle(response, void_refusal(response), Phase.VOIDING)


def void_refusal(response: CarrierResponse) -> Refused | None:
    """Read why a label can't be cancelled, from the status where the body doesn't say."""
    by_status = {
        404: Refused("NOT_FOUND", "the carrier doesn't know this label"),
        409: Refused("NOT_VOIDABLE", "already voided or on its way"),
    }
    return refusal(response.body) or by_status.get(response.status)


def _request(
    method: str, path: str, credentials: Credentials, body: object = None, *, acts: bool = False
) -> CarrierRequest:
    headers = {
        "Authorization": f"Bearer {credentials.get('api_key', '')}".rstrip(),
        "Content-Type": "application/json",
        "Accept": "application/json",
    }
    sent = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
    return CarrierRequest(method, path, headers, sent, acts=acts)


def _read_label(said: Mapping[str, Any], reference: str) -> Announced:
    if said.get("reference") != reference:
        raise CarrierAnswerUnreadable("the answer is about another reference")
    label = member(said.get("label"), "the label")
    return documents.announced(
        carrier_id=said.get("shipment_id"),
        tracking=said.get("tracking_number"),
        pdf=label.get("pdf"),
        zpl=label.get("zpl"),
    )


def load(body: bytes) -> Mapping[str, Any]:
    """Read a body that must be an object."""
    try:
        value = json.loads(body, object_pairs_hook=_unambiguous)
    except (ValueError, RecursionError) as error:  # deep nesting ends in a RecursionError
        raise CarrierAnswerUnreadable("the answer is no JSON") from error
    return member(value, "the answer")


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(said := dict(pairs)) < len(pairs):
        raise ValueError("a name comes twice")
    return said


def member(value: object, name: str) -> Mapping[str, Any]:
    """Take a value that must be an object."""
    if not isinstance(value, dict):
        raise CarrierAnswerUnreadable(f"{name} is no object")
    return value


def members(value: object, name: str) -> list[Mapping[str, Any]]:
    """Take a value that must be a list of objects."""
    if not isinstance(value, list):
        raise CarrierAnswerUnreadable(f"{name} is no list")
    return [member(entry, name) for entry in value]


def refusal(body: bytes) -> Refused | None:
    """Read a documented refusal; None where the body is anything else."""
    try:
        return refusal_of(load(body), "message")
    except CarrierAnswerUnreadable:
        return None


def refusal_of(said: Mapping[str, Any], message: str) -> Refused | None:
    """Read a refusal from an object that has its text under this name."""
    code = said.get("code")
    return documents.refused(code, said.get(message)) if code and isinstance(code, str) else None
