"""One request at a carrier, as faults see it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from starlette.responses import Response

from carriers.simulator.parcel import Parcel

Kind = Literal["buy", "lookup", "void", "login"]
By = Literal["call", "late commit"]
Work = Callable[[], Awaitable[Response]]


@dataclass(slots=True)
class Call:
    """What is asked for; seeded chance goes by `key`, e.g. the (first) parcel's reference."""

    kind: Kind
    key: str
    parcels: tuple[Parcel, ...] = ()
    by: By = "call"
    # The credential that the call came with, hashed: bookings belong to it.
    owner: str = ""
    # A late commit spends its own delay instead of the carrier's latency.
    spends_latency: bool = True
