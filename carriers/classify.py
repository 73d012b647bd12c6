"""From the events on the wire to their meaning for a purchase.

Pure; tested as a table. Why a separate module: an error here costs money. If an unknown is taken
for "not sent", it is bought twice; if a refusal is taken for "unknown", a parcel goes under review
for nothing.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum

from carriers.errors import CarrierError
from carriers.outcomes import NotSent, Refused, Throttled, Unknown

# Why an hour: a carrier that asks for more is broken, and the circuit breaker handles it.
LONGEST_RETRY_AFTER = 3600.0


# A refusal that says that the carrier has the reference already: what it sold is to be looked up.
DUPLICATE = frozenset({"DUPLICATE_REFERENCE"})

# A proxy's login, and time-outs: they tell nothing of what the carrier did, whatever the body says.
NO_REFUSAL = frozenset({407, 408, 499})


class Phase(StrEnum):
    """Where in the talk an answer came."""

    BEFORE = "before"  # a login: no purchase has been asked for yet
    BUYING = "buying"  # the answer to the buying request itself
    AFTER = "after"  # e.g. fetching the label of an order already made
    VOIDING = "voiding"  # taking a label back


@dataclass(frozen=True, slots=True)
class Promises:
    """The promises of a carrier's documentation.

    `refusal_statuses`: statuses beyond 4xx that may carry a documented refusal (SOAP's 500).
    """

    throttle_promises_nothing: bool = False
    refusal_statuses: frozenset[int] = frozenset()


def unknown_reason(status: int) -> str:
    """Name why an answer leaves the outcome unknown."""
    if status in (401, 403):
        return "credentials"
    if status == 408:
        return "timeout"
    if status == 409:
        return "conflict"
    if status == 429:
        return "throttled"
    return "server_error" if status >= 500 else "unreadable"


def trouble(error: CarrierError, *, act_sent: bool) -> NotSent | Unknown:
    """Turn an error on the wire into an outcome; `act_sent`: the first byte that acts was sent.

    Whatever the error: a DNS failure *after* a purchase leaves it as unknown as a reset does.
    """
    return (Unknown if act_sent else NotSent)(error.reason, str(error))


def answer(
    status: int,
    retry_after: str | None,
    refusal: Refused | None,
    phase: Phase,
    promises: Promises,
) -> Refused | Throttled | NotSent | Unknown:
    """Turn an answer that carries no label into an outcome.

    `refusal` is what the adapter read, if the body had the documented shape.
    """
    buying = phase is Phase.BUYING
    if buying and refusal is not None and refusal.code in DUPLICATE:
        return Unknown("conflict", f"HTTP {status}")
    wait = seconds(retry_after, now=datetime.now(UTC))
    if phase is not Phase.AFTER:  # then nothing takes the purchase back
        if status == 429:
            return Throttled(wait, promises.throttle_promises_nothing or phase is Phase.BEFORE)
        may_refuse = 400 <= status < 500 or status in promises.refusal_statuses
        # 409, "duplicate reference": it may have sold this one before.
        unclear = status in NO_REFUSAL or (status == 409 and buying)
        if status == 401 or (refusal is not None and may_refuse and not unclear):
            return _refused(status, refusal)
    if phase is Phase.BEFORE:
        return NotSent(unknown_reason(status), f"HTTP {status} before any purchase")
    return Unknown(unknown_reason(status), f"HTTP {status}", wait)


def _refused(status: int, refusal: Refused | None) -> Refused:
    if status in (401, 403):
        message = refusal.message if refusal else f"HTTP {status}"
        return Refused("credentials", message, credentials=True)
    return refusal or Refused("refused", f"HTTP {status}")


def seconds(retry_after: str | None, *, now: datetime) -> float | None:
    """Read a Retry-After header, either form (RFC 9110, 10.2.3); None where it makes no sense."""
    if not retry_after:
        return None
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        # Why 6 digits: more is over the cap anyhow, and int() refuses absurd lengths by raising.
        return min(float(text[:6]), LONGEST_RETRY_AFTER)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return min(max((at - now).total_seconds(), 0.0), LONGEST_RETRY_AFTER)
