"""What the settings of `faults` and `unguarded` may name, and what is wrong with them."""

from __future__ import annotations

from django.conf import settings

GUARDS = {
    "claim": "a repeated message finds the row taken",
    "fence": "whoever lost the row writes nothing to it",
    "send_guard": "a process that was paused does not send",
    "unknown": "what may have been bought is reconciled, not bought again",
    "settling": "an absence is believed only after the carrier's settling window",
    "idempotency": "a repeated key makes nothing new",
    "deadline": "a call is cut at its total deadline",
    "ramp": "after a recovery calls are let out at a rising rate",
    "bulkhead": "a carrier has room for so many calls at once",
    "breaker": "a carrier that fails is left alone",
    "gate": "a carrier that answers 429 is left alone for as long as it asks",
    "refusal": "after an unknown no refusal is final",
    "repeats": "a proved absence is followed by so many purchases at most",
    "credentials": "every call about an announcement uses the credentials of its first",
    "claims": "an announcement that ends its claimants goes to a person",
    "wake": "a wake-up that was not delivered is not taken for one that was",
    "clock": "ages are taken by the database's clock",
    "void_claim": "a label is voided by one process at a time",
    "void_check": "a refused void is held against what the carrier still lists",
    "spares": "a spare label is voided until it is gone",
    "turns": "an account that asks for much leaves the others their turn",
}
POINTS = (
    "before_intent",
    "after_intent",
    "before_send",
    "after_send",
    "after_reply",
    "before_commit",
    "after_commit",
    "after_notify",
    "poison",
)


def parse(text: str) -> tuple[str, int]:
    """Read `point:n`, each n-th passing of a point; ValueError where it is neither."""
    point, _, number = text.partition(":")
    every = int(number or 1)
    if point not in POINTS or every < 1:
        raise ValueError(f"{text!r} is not one of {', '.join(POINTS)}, with :n for each n-th")
    return point, every


def mistakes() -> list[str]:
    """Return what is wrong with the settings, for the system checks."""
    found = [
        f"FAULT_GUARDS_OFF: there is no guard {guard!r}."
        for guard in settings.FAULT_GUARDS_OFF
        if guard not in GUARDS
    ]
    for name in ("FAULT_CRASH_AT", "FAULT_PAUSE_AT"):
        try:
            parse(getattr(settings, name) or POINTS[0])
        except ValueError as error:
            found.append(f"{name}: {error}.")
    return found
