"""Colibri Express: JSON with a result per item; the same `client_id` returns the first label."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from carriers.base import PROBE, Carrier, Steps
from carriers.classify import DUPLICATE, Phase, Promises
from carriers.errors import CarrierAnswerUnreadable
from carriers.messages import CarrierRequest, Consignment, Credentials, Purchase
from carriers.methods import ShippingMethod
from carriers.outcomes import Outcome, Refused, Unknown, Voided, VoidResult
from carriers.shapes import documents, json_label


class ColibriExpress(Carrier):
    """One item per request: in a batch one parcel's failure could affect another."""

    code = "colibri"
    name = "Colibri Express"
    repeats = "dedup"
    # Its documentation. A repeated `client_id` waits for the first: no settling is needed.
    longest_work = 30.0
    promises = Promises(throttle_promises_nothing=True)
    credential_names = ("api_key",)
    methods = (
        ShippingMethod(20, "Colibri Express 0-5kg", "colibri", "0.001", "5.000", Decimal("3.10")),
        ShippingMethod(21, "Colibri Express 5-31kg", "colibri", "5.001", "31.000", Decimal("6.35")),
    )

    def announce(self, consignment: Consignment) -> Steps[Outcome]:
        item = {
            "client_id": consignment.reference,
            "product": consignment.product,
            "to": asdict(consignment.receiver),
            "from": asdict(consignment.sender),
            "grams": consignment.weight_g,
        }
        response = yield _post("/v1/labels", [item], consignment.credentials, acts=True)
        if response.status != 200:
            return self.settle(response, json_label.refusal(response.body))
        try:
            return _read_label(_only_result(response.body, consignment.reference))
        except CarrierAnswerUnreadable as error:
            return Unknown("unreadable", str(error))

    def build_probe(self, credentials: Credentials) -> CarrierRequest:
        # It has no lookup. Voiding an unknown label buys nothing and is processed like real work:
        # an empty list would be refused early, even if the carrier hangs behind its front.
        return _post("/v1/voids", [{"client_id": PROBE}], credentials, acts=False)

    def void(self, purchase: Purchase, credentials: Credentials) -> Steps[VoidResult]:
        # Named: with changed credentials one reference can have two labels.
        item = {"client_id": purchase.reference, "barcode": purchase.tracking_number}
        response = yield _post("/v1/voids", [item], credentials, acts=True)
        if response.status != 200:
            return self.settle(response, json_label.refusal(response.body), Phase.VOIDING)
        try:
            result = _only_result(response.body, purchase.reference)
        except CarrierAnswerUnreadable as error:
            return Unknown("unreadable", str(error))
        return Voided() if result.get("status") == "ok" else _not_voided(result)


def _read_label(result: Mapping[str, Any]) -> Outcome:
    if result.get("status") == "error":
        error = json_label.member(result.get("error"), "the item's error")
        said = json_label.refusal_of(error, "text")
        if said and said.code in DUPLICATE:
            return Unknown("conflict", "the reference is known already")
        if any(result.get(part) for part in ("barcode", "label_pdf", "label_zpl")):
            raise CarrierAnswerUnreadable("the item has an error and a label")
        return said or Unknown("unreadable", "an item's error without a code")
    if result.get("status") != "ok":
        raise CarrierAnswerUnreadable("the item has no known status")
    return documents.announced(
        carrier_id=result.get("client_id"),
        tracking=result.get("barcode"),
        pdf=result.get("label_pdf"),
        zpl=result.get("label_zpl"),
    )


def _not_voided(result: Mapping[str, Any]) -> VoidResult:
    error = result.get("error")
    said = json_label.refusal_of(error, "text") if isinstance(error, dict) else None
    if said or result.get("status") == "error":
        return said or Refused("NOT_VOIDABLE", "the carrier keeps this label")
    return Unknown("unreadable", "the item has no known status")


def _post(
    path: str, items: list[dict[str, Any]], credentials: Credentials, *, acts: bool
) -> CarrierRequest:
    headers = {
        "X-Api-Key": credentials.get("api_key", "").strip(),
        "Content-Type": "application/json",
        "Accept": "application/json",
    }
    body = json.dumps({"items": items}, separators=(",", ":")).encode()
    return CarrierRequest("POST", path, headers, body, acts=acts)


def _only_result(body: bytes, client_id: str) -> Mapping[str, Any]:
    results = json_label.members(json_label.load(body).get("results"), "results")
    if len(results) != 1 or results[0].get("client_id") != client_id:
        raise CarrierAnswerUnreadable("the answer is about another reference")
    return results[0]


carrier = ColibriExpress()
