"""When requests start.

Open loop: the times stand in a schedule, whatever the server does; a server that stops answering
is sent no less. Closed loop: so many connections, each sends when its last answer has come.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


class ArrivalsError(ValueError):
    """The description of arrivals makes no sense."""


@dataclass(frozen=True, slots=True)
class Constant:
    """One request each 1/rate seconds; the first at 0."""

    rate: float
    seconds: float

    def times(self) -> Iterator[float]:
        count = round(self.rate * self.seconds)
        return (number / self.rate for number in range(count))


@dataclass(frozen=True, slots=True)
class Ramp:
    """A rate that goes evenly from one to another."""

    from_rate: float
    to_rate: float
    seconds: float

    def times(self) -> Iterator[float]:
        """Return each intended start: where the area under the rate reaches 0, 1, 2, …"""
        slope = (self.to_rate - self.from_rate) / self.seconds
        total = (self.from_rate + self.to_rate) / 2 * self.seconds
        for number in range(round(total)):
            # from_rate * t + slope / 2 * t² = number; the root is never under 0 within the ramp.
            root = max(self.from_rate**2 + 2 * slope * number, 0.0) ** 0.5
            yield (root - self.from_rate) / slope if slope else number / self.from_rate


@dataclass(frozen=True, slots=True)
class Burst:
    """So many requests at once."""

    size: int

    def times(self) -> Iterator[float]:
        return itertools.repeat(0.0, self.size)


@dataclass(frozen=True, slots=True)
class Closed:
    """So many connections that send `requests` in all, each as soon as its last answer has come.

    They open one after another within `opening` seconds; 0 is all at once.
    """

    connections: int
    requests: int
    opening: float = 0.0

    def opens(self, number: int) -> float:
        """Return when that connection sends its first request."""
        return self.opening * number / self.connections


# Each has `times()`: seconds from the start of the stream, ascending.
Schedule = Constant | Ramp | Burst
OPEN = {"constant": Constant, "ramp": Ramp, "burst": Burst}
KINDS = (*OPEN, "closed")


def from_mapping(raw: Mapping[str, Any]) -> Schedule | Closed:
    """Return the arrivals that `{"kind": "constant", "rate": 20, "seconds": 30}` describes."""
    values = dict(raw)
    kind = values.pop("kind", "")
    if kind not in KINDS:
        raise ArrivalsError(f"arrivals of kind {kind!r}: there are {', '.join(KINDS)}")
    _refuse_nonsense(kind, values)
    try:
        return Closed(**values) if kind == "closed" else OPEN[kind](**values)
    except TypeError as error:
        raise ArrivalsError(f"arrivals of kind {kind!r}: {error}") from None


def _refuse_nonsense(kind: str, values: Mapping[str, Any]) -> None:
    may_be_zero = ("from_rate", "to_rate", "opening")
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ArrivalsError(f"arrivals of kind {kind!r}: {name}={value!r} is not a number")
        if value < 0 or (value == 0 and name not in may_be_zero):
            raise ArrivalsError(f"arrivals of kind {kind!r}: {name} must be over 0")
    if kind == "ramp" and not (values.get("from_rate") or values.get("to_rate")):
        raise ArrivalsError("a ramp from 0 to 0 sends nothing")
