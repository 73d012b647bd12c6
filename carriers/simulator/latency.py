"""How long a carrier takes: fixed, or lognormal by its p50 and p95."""

import math
import re
from dataclasses import dataclass
from statistics import NormalDist

from carriers.simulator.draw import draw

_NORMAL = NormalDist()
_Z95 = _NORMAL.inv_cdf(0.95)
_LOGNORMAL = re.compile(r"\s*p50:([^,]+),\s*p95:([^,]+)")

# An hour: longer than any client waits, short enough that a slip of the unit (ms) is refused.
LONGEST = 3600.0


@dataclass(frozen=True, slots=True)
class Latency:
    """The time a buying call takes, in seconds; `p50 == p95` is a fixed one."""

    p50: float
    p95: float

    def __post_init__(self) -> None:
        # Written so that NaN, which compares false with everything, is refused, too.
        if not 0 <= self.p50 <= self.p95 <= LONGEST:
            raise ValueError(f"needs 0 <= p50 <= p95 <= {LONGEST:.0f} seconds")
        if self.p50 == 0 < self.p95:
            raise ValueError("a lognormal latency needs a p50 over 0")

    def seconds(self, seed: int, carrier: str, reference: str) -> float:
        """Return the latency of one call; the same for the same seed, carrier and reference."""
        if self.p50 == self.p95:
            return self.p50
        # inv_cdf takes the open interval: 0 itself, one in 2**53, is moved inside.
        chance = max(draw(seed, "latency", carrier, reference), 2.0**-53)
        sigma = math.log(self.p95 / self.p50) / _Z95
        return self.p50 * math.exp(sigma * _NORMAL.inv_cdf(chance))

    def as_json(self) -> dict[str, float]:
        """Return the form that `PUT /carriers/{code}/latency` takes."""
        if self.p50 == self.p95:
            return {"fixed": self.p50}
        return {"p50": self.p50, "p95": self.p95}


def fixed(seconds: float) -> Latency:
    """Return a latency that is always `seconds`."""
    return Latency(seconds, seconds)


def parse(text: str) -> Latency:
    """Read `10` or `p50:0.4,p95:1.5`; raises ValueError with a message for a person."""
    lognormal = _LOGNORMAL.fullmatch(text)
    try:
        p50, p95 = map(float, lognormal.groups() if lognormal else (text, text))
    except ValueError:
        raise ValueError(f"{text!r} is neither seconds (10) nor p50:0.4,p95:1.5") from None
    return Latency(p50, p95)
