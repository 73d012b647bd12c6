"""Meridian Mail: XML in two steps, an order that answers nothing and then its label."""

import base64
from dataclasses import replace
from decimal import Decimal
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree as ET

from carriers.base import Carrier, Steps, unsettled_lookup
from carriers.classify import Phase, Promises
from carriers.errors import CarrierAnswerUnreadable
from carriers.messages import CarrierRequest, CarrierResponse, Consignment, Credentials, Purchase
from carriers.methods import ShippingMethod
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
from carriers.shapes import documents, xml_body
from carriers.shapes.json_label import void_refusal


class MeridianMail(Carrier):
    """The POST buys; a label that can't be fetched then is unknown, and looked up later."""

    code = "meridian"
    name = "Meridian Mail"
    repeats = "lookup"
    # Its documentation: an order that has no label within 45 s, nine times the p95, is given up.
    longest_work = 45.0
    # Why 60 s: a third as long again, for the label's page to show what came at the last moment.
    settling = 60.0
    promises = Promises(throttle_promises_nothing=True)
    credential_names = ("username", "password")
    methods = (
        ShippingMethod(40, "Meridian Mail 0-20kg", "meridian", "0.001", "20.000", Decimal("5.45")),
    )

    def announce(self, consignment: Consignment) -> Steps[Outcome]:
        order = ET.Element(
            "order",
            reference=consignment.reference,
            product=consignment.product,
            grams=str(consignment.weight_g),
        )
        xml_body.add_address(order, "receiver", consignment.receiver)
        xml_body.add_address(order, "sender", consignment.sender)
        headers = _headers(consignment.credentials)
        sent = xml_body.dump(order)
        created = yield CarrierRequest("POST", "/orders", headers, sent, acts=True)
        if created.status not in (200, 201):
            return self.settle(created, _refusal(created.body))
        # Its end: the carrier's address may have a path of its own.
        if not _location(created).endswith(_path(consignment.reference)):
            return Unknown("unreadable", "the order is not where it should be")
        response = yield self.build_lookup(consignment.reference, consignment.credentials)
        if response.status != 200:
            return self.settle(response, None, Phase.AFTER)
        try:
            return _read_label(response.body, consignment.reference)
        except CarrierAnswerUnreadable as error:
            return Unknown("unreadable", str(error))

    def build_lookup(self, reference: str, credentials: Credentials) -> CarrierRequest:
        return CarrierRequest("GET", f"{_path(reference)}/label", _headers(credentials))

    def parse_lookup(self, response: CarrierResponse, reference: str) -> LookupResult:
        # Only in its own words: a 404 of something in between proves nothing.
        refusal = _refusal(response.body) if response.status == 404 else None
        if refusal and refusal.code == "NOT_FOUND":
            return Absent()
        if response.status != 200:
            return unsettled_lookup(response)
        shown = _read_label(response.body, reference)
        others = _others(response.body)
        # Without documents, which can't be had: they are only there to be voided.
        return Found((shown, *(replace(shown, tracking_number=n, documents=()) for n in others)))

    def void(self, purchase: Purchase, credentials: Credentials) -> Steps[VoidResult]:
        # Named: a reference that was bought twice has two labels, and one of them is to be kept.
        named = f"{_path(purchase.reference)}?tracking={quote(purchase.tracking_number, safe='')}"
        response = yield CarrierRequest("DELETE", named, _headers(credentials), acts=True)
        if response.status == 204:
            return Voided()
        refusal = _refusal(response.body) or void_refusal(response)
        return self.settle(response, refusal, Phase.VOIDING)


def _location(created: CarrierResponse) -> str:
    try:
        return urlsplit(created.headers.get("location", "")).path
    except ValueError:  # invalid URLs with brackets or full-width slashes raise
        return ""


def _path(reference: str) -> str:
    return f"/orders/{quote(reference, safe='')}"


def _headers(credentials: Credentials) -> dict[str, str]:
    pair = f"{credentials.get('username', '')}:{credentials.get('password', '')}"
    basic = base64.b64encode(pair.encode()).decode()
    return {"Authorization": f"Basic {basic}", "Content-Type": "application/xml"}


def _refusal(body: bytes) -> Refused | None:
    try:
        root = xml_body.load(body)
    except CarrierAnswerUnreadable:
        return None
    code = root.get("code")
    if xml_body.local_name(root) != "error" or not code:
        return None
    return documents.refused(code, root.text)


def _others(body: bytes) -> list[str]:
    """Return the tracking numbers of further live labels under the reference."""
    numbers = xml_body.load(body).get("others", "").split()
    longest = documents.LONGEST_TRACKING_NUMBER
    return [documents.identifier(number, "another tracking number", longest) for number in numbers]


def _read_label(body: bytes, reference: str) -> Announced:
    label = xml_body.load(body)
    if xml_body.local_name(label) != "label" or label.get("reference") != reference:
        raise CarrierAnswerUnreadable("the answer is about another reference")
    return documents.announced(
        carrier_id=reference,
        tracking=label.get("tracking"),
        pdf=xml_body.text(label, "pdf"),
        zpl=xml_body.text(label, "zpl"),
    )


carrier = MeridianMail()
