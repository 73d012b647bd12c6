"""The outages that the page's buttons bring about, in the simulator's words."""

from typing import Any

# Seconds. The shortest that can be seen on a chart, and long enough for any demonstration.
SHORTEST, LONGEST = 1.0, 600.0

# A carrier that is out answers nothing: neither purchases nor the breaker's probe, or the breaker
# would close in the middle of the outage.
_ALL = {"calls": "all"}

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    # Over what a shop's own time-out usually is, under the deadline of a call.
    "slow": ("slow", {"seconds": 8, **_ALL}),
    "hang": ("hang", _ALL),
    "errors": ("error", {"status": 503, **_ALL}),
    "reset": ("reset_before", _ALL),
    "flap": ("flap", {"period": 10, "of": "hang", "with": _ALL}),
}


class UnknownOutageError(ValueError):
    """There is no such outage; the message lists those that there are."""


def fault_of(word: str, seconds: float) -> tuple[str, dict[str, Any]]:
    """Return the simulator's kind and parameters; raise UnknownOutageError."""
    if word not in KINDS:
        raise UnknownOutageError(f"there is no outage {word!r}; there are: {', '.join(KINDS)}")
    if not SHORTEST <= seconds <= LONGEST:
        raise UnknownOutageError(f"an outage lasts {SHORTEST:g} to {LONGEST:g} s, not {seconds:g}")
    kind, parameters = KINDS[word]
    return kind, {**parameters, "for": seconds}
