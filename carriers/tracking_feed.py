"""Reading the carriers' tracking feed, without any input or output: pages of events."""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from carriers.base import Steps
from carriers.errors import CarrierAnswerUnreadable
from carriers.messages import CarrierRequest, CarrierResponse
from carriers.outcomes import Unknown
from carriers.shapes.documents import LONGEST_TRACKING_NUMBER, identifier

log = logging.getLogger(__name__)

# What the columns hold: TrackingEvent's status, seq and carrier.
INTEGER = 2**31
BIG_INTEGER = 2**63
LONGEST_CARRIER = 32


@dataclass(frozen=True, slots=True)
class Step:
    """One event of the feed."""

    seq: int
    at: datetime
    carrier: str
    tracking_number: str
    status: int


@dataclass(frozen=True, slots=True)
class Page:
    """Events after a number, oldest first, the number of the last, and how many were sent.

    An event that can't be stored is not among the steps, and counts anyway.
    """

    steps: tuple[Step, ...]
    last: int
    size: int = 0


def read(since: int, limit: int) -> Steps[Page | Unknown]:
    """Read the events after a number, at most `limit`."""
    response = yield CarrierRequest("GET", f"/tracking/events?since={since}&limit={limit}")
    return _page(response, since)


def _page(response: CarrierResponse, since: int) -> Page | Unknown:
    try:
        events = json.loads(response.body)["events"]
        steps = [_step(event) for event in events]
    except (ValueError, KeyError, TypeError, RecursionError):
        return Unknown("unreadable", f"HTTP {response.status}")
    numbers = [_seq(event) for event in events]
    if numbers and not any(numbers):
        return Unknown("unreadable", "no event has a number")
    happened = _not_ahead([step for step in steps if step])
    return Page(tuple(happened), max([since, *numbers]), len(events))


def _not_ahead(steps: Sequence[Step]) -> list[Step]:
    """Date those that are ahead at the next of their number, else now.

    A wrong clock or time zone wrote them: they would hide what follows until then, e.g. that the
    parcel is delivered, and be in no month's partition.
    """
    next_at: dict[str, datetime] = {}
    now, dated = datetime.now(UTC), list[Step]()
    for step in reversed(steps):
        at = step.at if step.at <= now else next_at.get(step.tracking_number, now)
        next_at[step.tracking_number] = at
        dated.append(replace(step, at=at))
    return dated[::-1]


def _seq(event: Any) -> int:
    """Read an event's number; 0 where it has none, so that the others still move the cursor."""
    try:
        return _whole(event["seq"], BIG_INTEGER)
    except (ValueError, KeyError, TypeError, OverflowError):
        return 0


def _step(event: Any) -> Step | None:
    """Read an event; None if it can't be stored: the feed must continue after it."""
    try:
        return Step(
            seq=_whole(event["seq"], BIG_INTEGER),
            at=datetime.fromtimestamp(float(event["at"]), UTC),
            carrier=identifier(event["carrier"], "the carrier", LONGEST_CARRIER),
            tracking_number=identifier(
                event["tracking_number"], "the tracking number", LONGEST_TRACKING_NUMBER
            ),
            status=_whole(event["status"], INTEGER),
        )
    except (ValueError, KeyError, TypeError, OverflowError, OSError, CarrierAnswerUnreadable) as e:
        log.error("event %s of the tracking feed is skipped: %r", _seq(event), e)
        return None


def _whole(value: Any, limit: int) -> int:
    number = int(value)
    if not 0 <= number < limit:
        raise ValueError(f"{number} is out of range")
    return number
