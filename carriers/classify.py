"""From the events on the wire to their meaning for a purchase.

Pure; tested as a table. Why a separate module: an error here costs money. If an unknown is taken
for "not sent", it is bought twice; if a refusal is taken for "unknown", a parcel goes under review
for nothing.
"""

from __future__ import annotations

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


class Kind(StrEnum):
    """The outcome classes, as they are written into `attempt`."""

    ANNOUNCED = "announced"
    REFUSED = "refused"
    THROTTLED = "throttled"
    NOT_SENT = "not_sent"
    UNKNOWN = "unknown"


class Phase(StrEnum):
    """Where in the talk an answer came."""

    BEFORE = "before"  # a login: no purchase has been asked for yet
    BUYING = "buying"  # the answer to the buying request itself
    AFTER = "after"  # e.g. fetching the label of an order already made
    VOIDING = "voiding"  # taking a label back


class Body(StrEnum):
    """How the adapter could read an answer's body."""

    LABEL = "label"
    REFUSAL = "refusal"  # in the carrier's documented shape
    UNREADABLE = "unreadable"  # anything else: empty, cut, HTML of a proxy, another's reference


@dataclass(frozen=True, slots=True)
class Promises:
    """The promises of a carrier's documentation.

    `refusal_statuses`: statuses beyond 4xx that may carry a documented refusal (SOAP's 500).
    """

    throttle_promises_nothing: bool = False
    refusal_statuses: frozenset[int] = frozenset()


def trouble_kind(error: type[CarrierError], *, buy_sent: bool) -> Kind:
    """Classify an error on the wire; `buy_sent`: a buying request's first byte was sent."""
    del error  # a DNS failure *after* a purchase leaves it as unknown as a reset does
    return Kind.UNKNOWN if buy_sent else Kind.NOT_SENT


def answer_kind(status: int, body: Body, phase: Phase, promises: Promises) -> Kind:
    """Classify a complete HTTP answer."""
    if phase is Phase.AFTER:
        return Kind.ANNOUNCED if 200 <= status < 300 and body is Body.LABEL else Kind.UNKNOWN
    if status == 401:
        return Kind.REFUSED
    if status == 409 and phase is Phase.BUYING:
        return Kind.UNKNOWN  # "duplicate reference": it may have sold this one before
    if status == 429:
        return Kind.THROTTLED
    if status not in NO_REFUSAL and body is Body.REFUSAL and _may_refuse(status, promises):
        return Kind.REFUSED
    if phase is Phase.BUYING and 200 <= status < 300 and body is Body.LABEL:
        return Kind.ANNOUNCED
    return Kind.NOT_SENT if phase is Phase.BEFORE else Kind.UNKNOWN


def _may_refuse(status: int, promises: Promises) -> bool:
    return 400 <= status < 500 or status in promises.refusal_statuses


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


def trouble(error: CarrierError, *, buy_sent: bool) -> NotSent | Unknown:
    """Turn an error on the wire into an outcome."""
    if trouble_kind(type(error), buy_sent=buy_sent) is Kind.UNKNOWN:
        return Unknown(error.reason, str(error))
    return NotSent(error.reason, str(error))


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
    if phase is Phase.BUYING and refusal is not None and refusal.code in DUPLICATE:
        return Unknown("conflict", f"HTTP {status}")
    body = Body.REFUSAL if refusal else Body.UNREADABLE
    kind = answer_kind(status, body, phase, promises)
    if kind is Kind.REFUSED:
        return _refused(status, refusal)
    wait = seconds(retry_after, now=datetime.now(UTC))
    if kind is Kind.THROTTLED:
        nothing_made = promises.throttle_promises_nothing or phase is Phase.BEFORE
        return Throttled(wait, nothing_made)
    if kind is Kind.NOT_SENT:
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
