"""One carrier: its state, and the way of a call through faults, latency and booking."""

import asyncio
import logging
import time
from collections.abc import Coroutine
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from carriers.simulator.bookings import Booking, Bookings
from carriers.simulator.call import Call, Work
from carriers.simulator.fault import Fault
from carriers.simulator.latency import Latency
from carriers.simulator.ledger import LedgerError
from carriers.simulator.magic import Magic, refuse_if_asked
from carriers.simulator.parcel import Parcel, Refusal, check
from carriers.simulator.replies import BrokenOff
from carriers.simulator.shapes import SHAPES
from carriers.simulator.spec import CarrierSpec
from carriers.simulator.tracking import Tracking

logger = logging.getLogger(__name__)


class Carrier:
    """An ASGI application, and everything about it that the control API shows and sets."""

    def __init__(
        self,
        spec: CarrierSpec,
        latency: Latency,
        seed: int,
        bookings: Bookings,
        tracking: Tracking,
    ) -> None:
        self.spec = spec
        self.bookings = bookings
        self.faults: dict[str, Fault] = {}
        self.calls = self.buys = self.peak = 0
        # When each call in flight came, in the order in which they came.
        self._came: dict[int, float] = {}
        self.latency = self._first_latency = latency
        # Seconds for which a new booking stays out of lookups.
        self.lookup_lag = 0.0
        self._seed = seed
        self._tracking = tracking
        self._magic = Magic()
        self._later: set[asyncio.Task[None]] = set()
        self.shape = SHAPES[spec.shape](self)
        self._app = Starlette(
            routes=self.shape.routes(), exception_handlers=self.shape.exception_handlers()
        )

    @property
    def in_flight(self) -> int:
        """Return how many calls wait for an answer."""
        return len(self._came)

    def oldest(self, now: float) -> float:
        """Return for how many seconds the oldest of them has been waiting; 0 without any."""
        return now - next(iter(self._came.values()), now)

    def reset(self) -> None:
        """Go back to what the environment said: no faults, first latency, no lag."""
        self.faults.clear()
        self.latency = self._first_latency
        self.lookup_lag = 0.0
        self.peak = self.in_flight

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count the call while it is in flight."""
        self.calls += 1
        number = self.calls
        self._came[number] = time.monotonic()
        self.peak = max(self.peak, self.in_flight)
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            pass  # only the end of the process cancels calls; their connections are gone
        finally:
            del self._came[number]

    async def answer(self, call: Call, work: Work) -> Response:
        """Do `work` with this carrier's latency and the faults that affect this call."""
        now = time.monotonic()
        proceed: Work = partial(self._spend_latency, call, work)
        self.buys += call.kind == "buy"
        striking = [fault for fault in self.faults.values() if fault.strikes(call, now)]
        for fault in [*striking, *self._magic.faults_for(call)]:
            proceed = partial(fault.apply, call, self, proceed)
        try:
            return await proceed()
        except BrokenOff as broken:
            return broken.answer

    async def book(self, parcel: Parcel, call: Call) -> Booking:
        """Sell a label; raises Refusal."""
        refuse_if_asked(parcel)
        check(parcel, self.spec)
        booking = await self.bookings.book(self.spec, parcel, call.by, call.owner)
        self._tracking.announced(booking)
        return booking

    def found(self, reference: str, owner: str) -> list[Booking]:
        """Return what a lookup shows: live and settled, oldest first."""
        return self.bookings.live(self.spec.code, reference, self.lookup_lag, owner=owner)

    def sold(self, tracking_number: str, owner: str) -> Booking | None:
        """Return a booking of this carrier's by its tracking number."""
        booking = self.bookings.by_tracking(tracking_number)
        if booking is None or booking.carrier != self.spec.code or not booking.is_seen_by(owner):
            return None
        return booking

    def refusing(self, now: float) -> bool:
        """Return whether a fault wants the port closed."""
        return any(fault.refusing(now) for fault in self.faults.values())

    def error(self, status: int) -> Response:
        """Return a server error in this carrier's own form."""
        return self.shape.error(status, "INTERNAL", "Something went wrong")

    def throttled(self, retry_after: int | None) -> Response:
        """Return a 429 in this carrier's own form."""
        response = self.shape.error(429, "THROTTLED", "Too many requests")
        if retry_after is not None:
            response.headers["Retry-After"] = str(retry_after)
        return response

    def later(self, work: Coroutine[Any, Any, object]) -> None:
        """Run something that no client waits for."""
        task = asyncio.create_task(self._unwatched(work))
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def forget_later(self) -> None:
        """Drop what was to be done later: the process ends."""
        tasks = list(self._later)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _unwatched(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except BrokenOff:
            pass  # a late commit's inner fault: its client has an answer
        except LedgerError as error:
            logger.error("%s: a late commit was not booked: %s", self.spec.code, error)

    async def _spend_latency(self, call: Call, work: Work) -> Response:
        if call.kind == "buy" and call.spends_latency:
            await asyncio.sleep(self.latency.seconds(self._seed, self.spec.code, call.key))
        try:
            return await work()
        except Refusal as refusal:
            return self.shape.refused(refusal)
