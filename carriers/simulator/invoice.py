"""What a carrier would charge: its bookings as the list that comes with an invoice."""

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime

from carriers.simulator.bookings import Booking
from carriers.simulator.shapes.shape import Shape

HEADER = ("reference", "label_id", "tracking_number", "price", "date", "credited")
# Lines between two turns of the loop: a millisecond or two, in which no call is answered.
_LINES = 500


async def lines(shape: Shape, bookings: list[Booking]) -> AsyncIterator[str]:
    """Write the list, some lines at a time."""
    yield _csv([HEADER])
    for start in range(0, len(bookings), _LINES):
        yield _csv(_row(shape, booking) for booking in bookings[start : start + _LINES])
        await asyncio.sleep(0)


def _row(shape: Shape, booking: Booking) -> tuple[str, ...]:
    return (
        booking.reference,
        shape.label_id(booking),
        booking.tracking_number,
        booking.price,
        datetime.fromtimestamp(booking.at, UTC).date().isoformat(),
        "yes" if booking.voided else "no",
    )


def _csv(rows: Iterable[tuple[str, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
