"""The outages that the page's buttons bring about, in the simulator's words."""

from collections.abc import Mapping
from typing import Any

# Seconds. The shortest that can be seen on a chart, and long enough for any demonstration.
SHORTEST, LONGEST = 1.0, 600.0

# A carrier that is out answers nothing: neither purchases nor the breaker's probe, or the breaker
# would close in the middle of the outage.
_ALL = {"calls": "all"}

KINDS: Mapping[str, Mapping[str, Any]] = {
    # Over what a shop's own time-out usually is, under the deadline of a call.
    "slow": {"seconds": 8, **_ALL},
    "hang": _ALL,
    "error": {"status": 503, **_ALL},
    "reset_before": _ALL,
    "flap": {"period": 10, "of": "hang", "with": _ALL},
}


def parameters_of(kind: str, seconds: float) -> dict[str, Any]:
    """Return the simulator's parameters of an outage; ValueError for one that there is not."""
    if kind not in KINDS:
        raise ValueError(f"there is no outage {kind!r}; there are: {', '.join(KINDS)}")
    if not SHORTEST <= seconds <= LONGEST:
        raise ValueError(f"an outage lasts {SHORTEST:g} to {LONGEST:g} s, not {seconds:g}")
    return {**KINDS[kind], "for": seconds}
