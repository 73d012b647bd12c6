"""Lantern Freight: SOAP with a login token. It has neither lookup nor dedup."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from xml.etree import ElementTree as ET

from carriers.base import Carrier, Steps
from carriers.classify import Phase, Promises
from carriers.errors import CarrierAnswerUnreadable
from carriers.messages import CarrierRequest, CarrierResponse, Consignment, Credentials, Purchase
from carriers.methods import ShippingMethod
from carriers.outcomes import (
    Announced,
    NotSent,
    Outcome,
    Refused,
    Throttled,
    Unknown,
    Voided,
    VoidResult,
)
from carriers.shapes import documents, soap, xml_body
from carriers.tokens import TokenCache

EXPIRED = "Client.Authentication"
# Why 255: the API's own limit for strings; its tokens have 32.
LONGEST_TOKEN = 255

LoginFailure = Refused | Throttled | NotSent | Unknown
TokenUse = Callable[[str], CarrierRequest]


class LanternFreight(Carrier):
    """Login, then create; an expired token is replaced once, as nothing was made with it."""

    code = "lantern"
    name = "Lantern Freight"
    repeats = "none"
    # Its documentation. A person who decides must not look before this has passed.
    longest_work = 60.0
    promises = Promises(refusal_statuses=frozenset({500}))
    credential_names = ("username", "password")
    methods = (
        ShippingMethod(
            30, "Lantern Freight 0-70kg", "lantern", "0.001", "70.000", Decimal("12.80")
        ),
    )

    def __init__(self) -> None:
        self.tokens = TokenCache()

    def announce(self, consignment: Consignment) -> Steps[Outcome]:
        def create(token: str) -> CarrierRequest:
            return _create(token, consignment)

        response = yield from self._with_token(consignment.credentials, create)
        if not isinstance(response, CarrierResponse):
            return response
        if response.status != 200:
            return self.settle(response, _refusal(response))
        try:
            return _read_label(response)
        except CarrierAnswerUnreadable as error:
            return Unknown("unreadable", str(error))

    def void(self, purchase: Purchase, credentials: Credentials) -> Steps[VoidResult]:
        def cancel(token: str) -> CarrierRequest:
            fields = {"token": token, "tracking_number": purchase.tracking_number}
            return _request("CancelShipment", fields, acts=True)

        response = yield from self._with_token(credentials, cancel)
        if not isinstance(response, CarrierResponse):
            return response
        if response.status != 200:
            return self.settle(response, _refusal(response), Phase.VOIDING)
        try:
            soap.result(response, "CancelShipmentResponse")
        except CarrierAnswerUnreadable as error:
            return Unknown("unreadable", str(error))
        return Voided()

    def build_probe(self, credentials: Credentials) -> CarrierRequest:
        return _login(credentials)

    def is_sign_of_life(self, response: CarrierResponse) -> bool:
        return super().is_sign_of_life(response) or _refusal(response) is not None

    def _with_token(
        self, credentials: Credentials, build: TokenUse
    ) -> Steps[CarrierResponse | LoginFailure]:
        token = yield from self._token(credentials)
        if not isinstance(token, str):
            return token
        response = yield build(token)
        # Only under the documented status: a label may come with a warning about the token.
        fault = soap.fault(response) if response.status == 500 else None
        if fault is None or fault.code != EXPIRED:
            return response
        self.tokens.drop(credentials, token)
        token = yield from self._token(credentials)
        if not isinstance(token, str):
            return token
        # Set here, too: if another thread has logged in meanwhile, no login of this call has set
        # it.
        return (yield replace(build(token), nothing_made=True))

    def _token(self, credentials: Credentials) -> Steps[str | LoginFailure]:
        kept = self.tokens.get(credentials)
        if kept:
            return kept
        response = yield _login(credentials)
        if response.status != 200:
            return self.settle(response, _refusal(response), Phase.BEFORE)
        try:
            return self._keep(credentials, soap.result(response, "LoginResponse"))
        except CarrierAnswerUnreadable as error:
            return NotSent("unreadable", str(error))

    def _keep(self, credentials: Credentials, login: ET.Element) -> str:
        said = xml_body.text(login, "token")
        token = documents.identifier(said, "the token", LONGEST_TOKEN)
        expires_in = documents.amount(xml_body.text(login, "expires_in"), "expires_in")
        self.tokens.put(credentials, token, float(expires_in))
        return token


def _refusal(response: CarrierResponse) -> Refused | None:
    fault = soap.fault(response)
    if fault is None or not fault.is_refusal:
        return None
    return documents.refused(fault.code, fault.message, credentials=fault.code == EXPIRED)


def _request(
    action: str, fields: Mapping[str, str], *, acts: bool = False, nothing_made: bool = False
) -> CarrierRequest:
    call = ET.Element(action)
    for name, value in fields.items():
        ET.SubElement(call, name).text = value
    return _post(call, acts=acts, nothing_made=nothing_made)


def _post(call: ET.Element, *, acts: bool, nothing_made: bool = False) -> CarrierRequest:
    headers = {"Content-Type": "text/xml; charset=utf-8", "SOAPAction": f'"{call.tag}"'}
    body = soap.envelope(call)
    return CarrierRequest("POST", "/soap", headers, body, acts=acts, nothing_made=nothing_made)


def _login(credentials: Credentials) -> CarrierRequest:
    names = ("username", "password")
    fields = {name: credentials.get(name, "") for name in names}
    # A login comes first, or after a fault that promises that nothing was made.
    return _request("Login", fields, nothing_made=True)


def _create(token: str, consignment: Consignment) -> CarrierRequest:
    call = ET.Element("CreateShipment")
    ET.SubElement(call, "token").text = token
    ET.SubElement(call, "customer_reference").text = consignment.reference
    ET.SubElement(call, "product").text = consignment.product
    ET.SubElement(call, "grams").text = str(consignment.weight_g)
    xml_body.add_address(call, "receiver", consignment.receiver)
    xml_body.add_address(call, "sender", consignment.sender)
    return _post(call, acts=True)


def _read_label(response: CarrierResponse) -> Announced:
    created = soap.result(response, "CreateShipmentResponse")
    return documents.announced(
        carrier_id=xml_body.text(created, "shipment_number"),
        tracking=xml_body.text(created, "tracking_number"),
        pdf=xml_body.text(created, "label_pdf"),
        zpl=xml_body.text(created, "label_zpl"),
    )


carrier = LanternFreight()
