"""Two-step XML: `meridian`. Buying answers nothing; the label is fetched afterwards."""

import base64
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from carriers.simulator.bookings import Booking
from carriers.simulator.call import Call
from carriers.simulator.labels import encoded
from carriers.simulator.parcel import Malformed, Parcel, parcel_from
from carriers.simulator.shapes.markup import (
    address,
    attributes,
    element,
    xml_response,
    xml_root,
)
from carriers.simulator.shapes.shape import Shape, Unauthorized, require


class TwoStep(Shape):
    """One parcel a call; its label is found by reference."""

    def routes(self) -> list[Route]:
        return [
            Route("/orders", self.create, methods=["POST"]),
            Route("/orders/{reference:path}/label", self.label, methods=["GET"]),
            Route("/orders/{reference:path}", self.void, methods=["DELETE"]),
        ]

    def label_id(self, booking: Booking) -> str:
        """Return the reference: this format has no other id."""
        return booking.reference

    def error(self, status: int, code: str, message: str) -> Response:
        text = element("error", message).replace("<error", f"<error{attributes(code=code)}", 1)
        return xml_response(text, status)

    def unauthorized(self) -> Response:
        response = super().unauthorized()
        response.headers["WWW-Authenticate"] = "Basic"
        return response

    async def create(self, request: Request) -> Response:
        """Buy a label, and say only where it will be."""
        owner = _authorize(request)
        root = await xml_root(request)
        if root.tag != "order":
            raise Malformed("the root is not an order")
        parcel = parcel_from(
            root.get("reference"), root.get("product"), root.get("grams"), address(root, "receiver")
        )
        call = Call("buy", parcel.reference, (parcel,), owner=owner)
        return await self.carrier.answer(call, lambda: self._book(parcel, call))

    async def label(self, request: Request) -> Response:
        """Return the oldest live label of a reference, and the numbers of the others."""
        owner = _authorize(request)
        reference = request.path_params["reference"]

        async def work() -> Response:
            return self._label(reference, owner)

        return await self.carrier.answer(Call("lookup", reference), work)

    async def void(self, request: Request) -> Response:
        """Take the label back that is named."""
        owner = _authorize(request)
        reference = request.path_params["reference"]
        tracking = request.query_params.get("tracking", "")
        call = Call("void", reference)
        return await self.carrier.answer(call, lambda: self._void(reference, tracking, owner))

    async def _book(self, parcel: Parcel, call: Call) -> Response:
        await self.carrier.book(parcel, call)
        location = f"/orders/{quote(parcel.reference, safe='')}"
        return Response(status_code=201, headers={"Location": location})

    def _label(self, reference: str, owner: str) -> Response:
        found = self.carrier.found(reference, owner)
        if not found:
            return self.error(404, "NOT_FOUND", "There is no label")
        booking, *others = found
        pdf, zpl = encoded(booking)
        head = attributes(
            reference=booking.reference, tracking=booking.tracking_number, price=booking.price
        )
        if others:
            head += attributes(others=" ".join(other.tracking_number for other in others))
        return xml_response(f"<label{head}>{element('pdf', pdf)}{element('zpl', zpl)}</label>")

    async def _void(self, reference: str, tracking: str, owner: str) -> Response:
        booking = self.carrier.sold(tracking, owner)
        if booking is None or booking.reference != reference:
            return self.error(404, "NOT_FOUND", "No such order")
        if not await self.carrier.bookings.void(booking):
            return self.error(409, "NOT_VOIDABLE", "Already voided, or on its way")
        return Response(status_code=204)


def _authorize(request: Request) -> str:
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        raise Unauthorized
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:  # no ASCII, no base64, no UTF-8
        raise Unauthorized from None
    require(password)
    return require(user)
