"""SOAP with a login token: `lantern`."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from carriers.simulator.bookings import Booking
from carriers.simulator.call import Call
from carriers.simulator.labels import encoded
from carriers.simulator.parcel import Malformed, Parcel, Refusal, parcel_from
from carriers.simulator.shapes.markup import address, element, xml_response, xml_root
from carriers.simulator.shapes.shape import Shape, Unauthorized, require

if TYPE_CHECKING:
    from carriers.simulator.carrier import Carrier

# Seconds, as README.md says.
_TOKEN_TTL = 600.0
_ENVELOPE = (
    '<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/">'
    "<soap:Body>{}</soap:Body></soap:Envelope>"
)


class Soap(Shape):
    """One parcel a call, without a way to find a lost answer."""

    def __init__(self, carrier: Carrier) -> None:
        super().__init__(carrier)
        # When each token ends, and whose it is.
        self._tokens: dict[str, tuple[float, str]] = {}

    def routes(self) -> list[Route]:
        return [Route("/soap", self.dispatch, methods=["POST"])]

    def error(self, status: int, code: str, message: str) -> Response:
        """Return a fault that promises nothing."""
        return _fault("soap:Server", code, message, status)

    def refused(self, refusal: Refusal) -> Response:
        return _fault("soap:Client", refusal.code, refusal.message)

    def malformed(self, message: str) -> Response:
        return _fault("soap:Client", "MALFORMED", message)

    def unauthorized(self) -> Response:
        """Return the answer to a wrong login, or to a token that has run out."""
        return _fault("soap:Client.Authentication", "UNAUTHORIZED", "The token is not valid")

    async def dispatch(self, request: Request) -> Response:
        """Do what the SOAPAction says."""
        actions = {
            "Login": self._login,
            "CreateShipment": self._create,
            "CancelShipment": self._cancel,
        }
        name = request.headers.get("soapaction", "").strip('"')
        if name not in actions:
            raise Malformed(f"SOAPAction must be one of {', '.join(actions)}")
        body = (await xml_root(request)).find("Body")
        action = body.find(name) if body is not None else None
        if action is None:
            raise Malformed(f"the envelope's body has no {name}")
        return await actions[name](action)

    async def _login(self, action: Element) -> Response:
        owner = require(action.findtext("username"))
        require(action.findtext("password"))

        async def work() -> Response:
            return _reply("Login", token=self._new_token(owner), expires_in=f"{_TOKEN_TTL:.0f}")

        return await self.carrier.answer(Call("login", "login"), work)

    async def _create(self, action: Element) -> Response:
        owner = self._owner_of_token(action)
        parcel = parcel_from(
            action.findtext("customer_reference"),
            action.findtext("product"),
            action.findtext("grams"),
            address(action, "receiver"),
        )
        call = Call("buy", parcel.reference, (parcel,), owner=owner)
        return await self.carrier.answer(call, lambda: self._book(parcel, call))

    async def _cancel(self, action: Element) -> Response:
        owner = self._owner_of_token(action)
        tracking_number = action.findtext("tracking_number") or ""
        booking = self.carrier.sold(tracking_number, owner)
        call = Call("void", booking.reference if booking else tracking_number)
        return await self.carrier.answer(call, lambda: self._void(booking))

    async def _book(self, parcel: Parcel, call: Call) -> Response:
        booking = await self.carrier.book(parcel, call)
        pdf, zpl = encoded(booking)
        return _reply(
            "CreateShipment",
            shipment_number=booking.shipment_id,
            tracking_number=booking.tracking_number,
            price=booking.price,
            label_pdf=pdf,
            label_zpl=zpl,
        )

    async def _void(self, booking: Booking | None) -> Response:
        if booking is None:
            raise Refusal("NOT_FOUND", "No such shipment")
        if not await self.carrier.bookings.void(booking):
            raise Refusal("NOT_VOIDABLE", "Already voided, or on its way")
        return _reply("CancelShipment")

    def _new_token(self, owner: str) -> str:
        now = time.monotonic()
        # Cleared here, so that a client which logs in for every call fills no memory.
        self._tokens = {token: kept for token, kept in self._tokens.items() if kept[0] > now}
        token = secrets.token_hex(16)
        self._tokens[token] = now + _TOKEN_TTL, owner
        return token

    def _owner_of_token(self, action: Element) -> str:
        end, owner = self._tokens.get(action.findtext("token") or "", (0.0, ""))
        if end <= time.monotonic():
            raise Unauthorized
        return owner


def _reply(name: str, **fields: str) -> Response:
    inner = "".join(element(tag, text) for tag, text in fields.items())
    return xml_response(_ENVELOPE.format(f"<{name}Response>{inner}</{name}Response>"))


def _fault(faultcode: str, code: str, message: str, status: int = 500) -> Response:
    inner = (
        element("faultcode", faultcode)
        + element("faultstring", message)
        + f"<detail>{element('code', code)}</detail>"
    )
    return xml_response(_ENVELOPE.format(f"<soap:Fault>{inner}</soap:Fault>"), status)
