"""Write attempts, each call and each person's decision once. No other code writes them."""

from __future__ import annotations

from typing import Any

from carriers.outcomes import (
    Absent,
    Announced,
    Found,
    LookupResult,
    NotSent,
    Outcome,
    Refused,
    Throttled,
    Unknown,
    Voided,
    VoidResult,
)
from parcels.models import Announcement, Attempt

Result = Outcome | LookupResult | VoidResult

_CLASSES: dict[type, str] = {
    Announced: "announced",
    Refused: "refused",
    Throttled: "throttled",
    NotSent: "not_sent",
    Unknown: "unknown",
    Found: "found",
    Absent: "absent",
    Voided: "voided",
}


def outcome_class(result: Result) -> str:
    """Return the result's name, as attempts and metrics have it."""
    return _CLASSES[type(result)]


def attempt_of(
    announcement: Announcement,
    kind: str,
    result: Result | str,
    duration: float = 0.0,
    *,
    detail: str = "",
    carrier_id: str = "",
    tracking_number: str = "",
    recorded: bool = True,
) -> Attempt:
    """Return an attempt, unsaved; `duration` in seconds.

    `recorded` is False if another process had the row.

    `result` is a carrier's, or the name of a person's decision. The carrier's free text is left
    out: it may repeat an address.
    """
    if isinstance(result, Announced):
        carrier_id, tracking_number = result.carrier_id, result.tracking_number
    match result:
        case Refused(code=code):
            detail = code
        case NotSent(reason=reason) | Unknown(reason=reason):
            detail = reason
    return Attempt(
        announcement=announcement,
        kind=kind,
        fence=announcement.fence,
        sent_at=announcement.sent_at,
        duration=round(duration, 4),
        outcome=result if isinstance(result, str) else outcome_class(result),
        detail=detail[:500],
        carrier_id=carrier_id,
        tracking_number=tracking_number,
        recorded=recorded,
    )


def note_attempt(
    announcement: Announcement, kind: str, result: Result | str, *given: Any, **more: Any
) -> Attempt:
    """Write one attempt; see `attempt_of`."""
    attempt = attempt_of(announcement, kind, result, *given, **more)
    attempt.save(force_insert=True)
    return attempt
