"""What happens to a parcel after it was announced: a short journey on an adjustable clock."""

import heapq
import time
from collections import deque
from dataclasses import dataclass
from itertools import islice

from carriers.simulator.bookings import Booking, Bookings

# Status ids of the parcel API's dialect: announced, picked up by the driver, en route to the
# sorting centre, en route, driver en route, delivered.
JOURNEY = (1, 22, 3, 91, 92, 11)
_LAST = len(JOURNEY) - 1

# The newest 100,000 events, about 25 MB: a reader that is further behind starts over.
_KEPT = 100_000


@dataclass(frozen=True, slots=True)
class TrackingEvent:
    """One step of one parcel; `at` in unix seconds."""

    seq: int
    at: float
    carrier: str
    tracking_number: str
    status: int


class Tracking:
    """Moves every live booking one stage per `step` seconds; 0 leaves them where they are."""

    def __init__(self, bookings: Bookings, step: float) -> None:
        self._step = step
        self._events: deque[TrackingEvent] = deque(maxlen=_KEPT)
        # Numbers go on after a restart (events are not kept, readers are): they begin at the
        # start time in microseconds, which fits the 53 bits that JSON readers have.
        self._seq = int(time.time() * 1_000_000)
        self._due: list[tuple[float, str, Booking]] = []
        for booking in bookings.all():
            self._resume(booking)

    def announced(self, booking: Booking) -> None:
        """Begin a parcel's journey, once."""
        if booking.announced:
            return
        booking.announced = True
        self._record(booking)
        self._schedule(booking)

    def advance(self, booking: Booking) -> bool:
        """Take a parcel to its next stage now; False at the end, or where it was voided."""
        if booking.voided or booking.stage >= _LAST:
            return False
        booking.stage += 1
        self._record(booking)
        return True

    def run_due(self, now: float) -> None:
        """Take every parcel whose time has come one stage on; `now` in unix seconds."""
        while self._due and self._due[0][0] <= now:
            due, _, booking = heapq.heappop(self._due)
            # One that was advanced by hand is ahead of its clock, and waits for it.
            if self._stage_at(booking, due) > booking.stage:
                self.advance(booking)
            self._schedule(booking, due)

    def events(self, since: int, limit: int) -> list[TrackingEvent]:
        """Return the events after `since`, oldest first, `limit` at most."""
        if not self._events:
            return []
        # Numbers are consecutive, so the place of the first one is a subtraction.
        skip = max(0, since - self._events[0].seq + 1)
        return list(islice(self._events, skip, skip + limit))

    def _record(self, booking: Booking, at: float | None = None) -> None:
        self._seq += 1
        status = JOURNEY[booking.stage]
        at = time.time() if at is None else at
        event = TrackingEvent(self._seq, at, booking.carrier, booking.tracking_number, status)
        self._events.append(event)

    def _resume(self, booking: Booking) -> None:
        if self._step:
            booking.stage = self._stage_at(booking, time.time())
            if booking.stage and not booking.voided:  # nobody may have read it before the restart
                self._record(booking, booking.at + booking.stage * self._step)
            self._schedule(booking)

    def _stage_at(self, booking: Booking, now: float) -> int:
        # Half a step of slack: `due` is a sum of floats and may be a hair early.
        return min(_LAST, max(0, int((now - booking.at) / self._step + 0.5)))

    def _schedule(self, booking: Booking, after: float | None = None) -> None:
        if not self._step or booking.voided or booking.stage >= _LAST:
            return
        previous = booking.at + booking.stage * self._step if after is None else after
        heapq.heappush(self._due, (previous + self._step, booking.tracking_number, booking))
