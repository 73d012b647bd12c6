"""JSON, partial success per item: `colibri`."""

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from carriers.simulator.bookings import Booking
from carriers.simulator.call import Call
from carriers.simulator.labels import encoded
from carriers.simulator.parcel import Malformed, Parcel, Refusal, parcel_from, reference_from
from carriers.simulator.shapes.shape import Shape, json_object, require

# The documents of a hundred labels are 0.7 MB: more doesn't belong into one answer.
_MOST_ITEMS = 100


class JsonItems(Shape):
    """Many parcels a call, each with its own result; the same `client_id` is the same label."""

    def routes(self) -> list[Route]:
        return [
            Route("/v1/labels", self.create, methods=["POST"]),
            Route("/v1/voids", self.void, methods=["POST"]),
        ]

    def label_id(self, booking: Booking) -> str:
        """Return the reference: this format has no other id."""
        return booking.reference

    async def create(self, request: Request) -> Response:
        """Buy labels."""
        owner = require(request.headers.get("x-api-key"))
        parcels = [
            parcel_from(item.get("client_id"), item.get("product"), item.get("grams"), item["to"])
            for item in await _items(request, "to")
        ]
        known = self.carrier.bookings.known
        stored = all(known(self.carrier.spec.code, each.reference, owner) for each in parcels)
        # What is stored is answered at once: there is no label to be made.
        key = parcels[0].reference
        call = Call("buy", key, tuple(parcels), owner=owner, spends_latency=not stored)

        async def work() -> Response:
            results = await asyncio.gather(*(self._book(parcel, call) for parcel in parcels))
            return JSONResponse({"results": results})

        return await self.carrier.answer(call, work)

    async def void(self, request: Request) -> Response:
        """Take labels back."""
        owner = require(request.headers.get("x-api-key"))
        items = await _items(request, "client_id")
        references = [reference_from(item["client_id"]) for item in items]

        async def work() -> Response:
            results = await asyncio.gather(*(self._void(item, owner) for item in items))
            return JSONResponse({"results": results})

        return await self.carrier.answer(Call("void", references[0]), work)

    async def _book(self, parcel: Parcel, call: Call) -> dict[str, Any]:
        try:
            booking = await self.carrier.book(parcel, call)
        except Refusal as refusal:
            error = {"code": refusal.code, "text": refusal.message}
            return {"client_id": parcel.reference, "status": "error", "error": error}
        pdf, zpl = encoded(booking)
        return {
            "client_id": parcel.reference,
            "status": "ok",
            "barcode": booking.tracking_number,
            "cost": booking.price,
            "label_pdf": pdf,
            "label_zpl": zpl,
        }

    async def _void(self, item: dict[str, Any], owner: str) -> dict[str, str]:
        reference = item["client_id"]
        booking = self.carrier.sold(str(item.get("barcode")), owner)
        voided = (
            booking is not None
            and booking.reference == reference
            and await self.carrier.bookings.void(booking)
        )
        return {"client_id": reference, "status": "ok" if voided else "error"}


async def _items(request: Request, needed: str) -> list[dict[str, Any]]:
    items = (await json_object(request)).get("items")
    if not isinstance(items, list) or not 1 <= len(items) <= _MOST_ITEMS:
        raise Malformed(f"items must be a list of 1 to {_MOST_ITEMS}")
    if not all(isinstance(item, dict) and needed in item for item in items):
        raise Malformed(f"each item must be an object with {needed}")
    return items
