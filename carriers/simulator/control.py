"""The control API: what faults, carriers, the ledger and tracking look like to a test."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from carriers.simulator.bookings import summary
from carriers.simulator.carrier import Carrier
from carriers.simulator.fault import KINDS, make
from carriers.simulator.invoice import lines
from carriers.simulator.latency import LONGEST, Latency
from carriers.simulator.params import BadParams, Params
from carriers.simulator.parcel import Malformed
from carriers.simulator.shapes.shape import json_object

if TYPE_CHECKING:
    from carriers.simulator.simulator import Simulator

# One answer of 10,000 events is over a megabyte: more must be paged.
_MOST = 10_000
_DEFAULT = 1_000


class Unknown(Exception):
    """The path names a carrier, kind or number that there is not."""


def control_app(simulator: Simulator) -> Starlette:
    """Make the application of the control port."""
    control = Control(simulator)
    return Starlette(
        routes=control.routes(),
        exception_handlers={
            Unknown: lambda _, error: _refuse(404, error),
            BadParams: lambda _, error: _refuse(400, error),
            Malformed: lambda _, error: _refuse(400, error),
            HTTPException: lambda _, error: _refuse(error.status_code, error),  # no such path
        },
    )


def _refuse(status: int, error: Exception) -> Response:
    # It may repeat half a surrogate pair, which no answer can carry.
    return JSONResponse({"error": str(error).encode(errors="replace").decode()}, status)


class Control:
    """The endpoints; README.md describes them."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator

    def routes(self) -> list[Route]:
        """Return every endpoint."""
        return [
            Route("/healthz", self.healthz),
            Route("/carriers", self.carriers),
            Route("/carriers/{code}", self.change, methods=["PUT"]),
            Route("/carriers/{code}/latency", self.latency, methods=["PUT"]),
            Route("/carriers/{code}/faults/{kind}", self.put_fault, methods=["PUT"]),
            Route("/carriers/{code}/faults/{kind}", self.delete_faults, methods=["DELETE"]),
            Route("/carriers/{code}/faults", self.delete_faults, methods=["DELETE"]),
            Route("/carriers/{code}/invoice.csv", self.invoice),
            Route("/faults", self.faults),
            Route("/faults", self.delete_all_faults, methods=["DELETE"]),
            Route("/reset", self.reset, methods=["POST"]),
            Route("/ledger/summary", self.ledger_summary),
            Route("/tracking/events", self.tracking_events),
            Route("/tracking/{tracking_number}/advance", self.advance, methods=["POST"]),
        ]

    async def healthz(self, request: Request) -> Response:
        """Say that the process answers; a carrier that refuses connections doesn't change that."""
        return JSONResponse({"status": "ok"})

    async def carriers(self, request: Request) -> Response:
        """List the carriers as they are now."""
        carriers = self._simulator.carriers.values()
        return JSONResponse({"carriers": [self._show(carrier) for carrier in carriers]})

    async def change(self, request: Request) -> Response:
        """Set lookup_lag."""
        carrier, params = self._carrier(request), Params(await json_object(request))
        lag = params.number("lookup_lag", carrier.lookup_lag, high=LONGEST)
        params.finish()
        carrier.lookup_lag = lag
        return JSONResponse({"lookup_lag": lag})

    async def latency(self, request: Request) -> Response:
        """Set a carrier's latency for the calls that come from now on."""
        carrier = self._carrier(request)
        carrier.latency = _read_latency(Params(await json_object(request)))
        return JSONResponse(carrier.latency.as_json())

    async def faults(self, request: Request) -> Response:
        """List the faults of all carriers."""
        now = time.monotonic()
        listed = [
            {"carrier": code, **fault.describe(now)}
            for code, carrier in self._simulator.carriers.items()
            for fault in carrier.faults.values()
        ]
        return JSONResponse({"faults": listed, "kinds": sorted(KINDS)})

    async def put_fault(self, request: Request) -> Response:
        """Begin a fault; one of the same kind starts again."""
        carrier, kind = self._carrier(request), self._kind(request)
        given = await json_object(request) if await request.body() else {}
        fault = make(kind, Params(given))
        carrier.faults.pop(kind, None)  # the one that was set last is the outermost
        carrier.faults[kind] = fault
        await self._simulator.follow_faults()
        return JSONResponse({"carrier": carrier.spec.code, **fault.describe(time.monotonic())})

    async def delete_faults(self, request: Request) -> Response:
        """End one fault of a carrier, or all; one that isn't there has ended."""
        carrier = self._carrier(request)
        if "kind" in request.path_params:
            carrier.faults.pop(self._kind(request), None)
        else:
            carrier.faults.clear()
        await self._simulator.follow_faults()
        return Response(status_code=204)

    async def delete_all_faults(self, request: Request) -> Response:
        """End every fault."""
        for carrier in self._simulator.carriers.values():
            carrier.faults.clear()
        await self._simulator.follow_faults()
        return Response(status_code=204)

    async def reset(self, request: Request) -> Response:
        """Put faults, latencies and settings back to how the process began."""
        for carrier in self._simulator.carriers.values():
            carrier.reset()
        await self._simulator.follow_faults()
        return Response(status_code=204)

    async def ledger_summary(self, request: Request) -> Response:
        """Sum the ledger up per carrier."""
        return JSONResponse(summary(self._simulator.bookings))

    async def invoice(self, request: Request) -> Response:
        """List what a carrier sold, as its invoice would."""
        carrier = self._carrier(request)
        sold = self._simulator.bookings.of_carrier(carrier.spec.code)
        return StreamingResponse(lines(carrier.shape, sold), media_type="text/csv")

    async def tracking_events(self, request: Request) -> Response:
        """List tracking events after `since`, oldest first."""
        since = _query_number(request, "since", 0, high=2**63)
        limit = _query_number(request, "limit", _DEFAULT, low=1, high=_MOST)
        events = self._simulator.tracking.events(since, limit)
        last = events[-1].seq if events else since
        shown = [asdict(event) for event in events]
        return JSONResponse({"events": shown, "last_seq": last})

    async def advance(self, request: Request) -> Response:
        """Take one parcel to its next tracking status now."""
        number = request.path_params["tracking_number"]
        booking = self._simulator.bookings.by_tracking(number)
        if booking is None:
            raise Unknown(f"no such tracking number: {number}")
        if not self._simulator.tracking.advance(booking):
            return JSONResponse({"error": "it is delivered, or voided"}, 409)
        return JSONResponse({"tracking_number": number, "stage": booking.stage})

    def _carrier(self, request: Request) -> Carrier:
        code = request.path_params["code"]
        try:
            return self._simulator.carriers[code]
        except KeyError:
            known = ", ".join(self._simulator.carriers)
            raise Unknown(f"no such carrier: {code}; known: {known}") from None

    def _kind(self, request: Request) -> str:
        kind: str = request.path_params["kind"]
        if kind not in KINDS:
            raise Unknown(f"no such fault: {kind}; known: {', '.join(sorted(KINDS))}")
        return kind

    def _show(self, carrier: Carrier) -> dict[str, object]:
        return {
            "code": carrier.spec.code,
            "name": carrier.spec.name,
            "url": self._simulator.listeners[carrier.spec.code].url,
            "latency": carrier.latency.as_json(),
            "lookup_lag": carrier.lookup_lag,
            "in_flight": carrier.in_flight,
            "oldest": carrier.oldest(time.monotonic()),
            "peak_in_flight": carrier.peak,
            "calls": carrier.calls,
            "buys": carrier.buys,
            "booked": self._simulator.bookings.counts[carrier.spec.code],
        }


def _read_latency(params: Params) -> Latency:
    if params.has("fixed"):
        seconds = params.number("fixed", 0.0, high=LONGEST)
        p50, p95 = seconds, seconds
    else:
        p50 = params.number("p50", -1.0, high=LONGEST)
        p95 = params.number("p95", -1.0, high=LONGEST)
    params.finish()
    try:
        return Latency(p50, p95)
    except ValueError as error:
        raise BadParams(f"latency: {error}") from None


def _query_number(request: Request, name: str, default: int, *, low: int = 0, high: int) -> int:
    text = request.query_params.get(name, str(default))
    # isascii: other scripts have digits, too, and int() takes them.
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
    if not low <= number <= high:
        raise BadParams(f"{name}: must be a whole number from {low} to {high}")
    return number
