"""JSON, base64 documents: `postnl` and `tortoise`."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from carriers.simulator.bookings import Booking
from carriers.simulator.call import Call
from carriers.simulator.labels import encoded
from carriers.simulator.parcel import Parcel, parcel_from, reference_from
from carriers.simulator.shapes.shape import Shape, json_object, require


class JsonLabel(Shape):
    """One parcel a call; lists by reference."""

    refused_status = 422

    def routes(self) -> list[Route]:
        return [
            Route("/shipments", self.create, methods=["POST"]),
            Route("/shipments", self.list, methods=["GET"]),
            Route("/shipments/{shipment_id}", self.void, methods=["DELETE"]),
        ]

    async def create(self, request: Request) -> Response:
        """Buy a label."""
        owner = _authorize(request)
        body = await json_object(request)
        parcel = parcel_from(
            body.get("reference"), body.get("product"), body.get("weight_g"), body.get("receiver")
        )
        call = Call("buy", parcel.reference, (parcel,), owner=owner)
        return await self.carrier.answer(call, lambda: self._book(parcel, call))

    async def list(self, request: Request) -> Response:
        """Look bookings up by reference."""
        owner = _authorize(request)
        reference = reference_from(request.query_params.get("reference"))

        async def work() -> Response:
            found = self.carrier.found(reference, owner)
            return JSONResponse({"shipments": [self._shipment(booking) for booking in found]})

        return await self.carrier.answer(Call("lookup", reference), work)

    async def void(self, request: Request) -> Response:
        """Take a label back."""
        owner = _authorize(request)
        shipment_id = request.path_params["shipment_id"]
        booking = self.carrier.bookings.by_shipment(self.carrier.spec.code, shipment_id, owner)
        call = Call("void", booking.reference if booking else shipment_id)
        return await self.carrier.answer(call, lambda: self._void(booking))

    async def _book(self, parcel: Parcel, call: Call) -> Response:
        booking = await self.carrier.book(parcel, call)
        return JSONResponse(self._shipment(booking), 201)

    async def _void(self, booking: Booking | None) -> Response:
        if booking is None:
            return self.error(404, "NOT_FOUND", "No such shipment")
        if not await self.carrier.bookings.void(booking):
            return self.error(409, "NOT_VOIDABLE", "Already voided, or on its way")
        return Response(status_code=204)

    def _shipment(self, booking: Booking) -> dict[str, object]:
        pdf, zpl = encoded(booking)
        return {
            "shipment_id": booking.shipment_id,
            "reference": booking.reference,
            "tracking_number": booking.tracking_number,
            "price": booking.price,
            "label": {"pdf": pdf, "zpl": zpl},
        }


def _authorize(request: Request) -> str:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return require(key.strip() if scheme.lower() == "bearer" else None)
