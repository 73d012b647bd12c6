"""One request at a carrier, as faults see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from starlette.responses import Response

Kind = Literal["buy", "lookup", "void", "login"]
By = Literal["call", "late commit"]
Work = Callable[[], Awaitable[Response]]


@dataclass(slots=True)
class Call:
    """What is asked for; `references` are the parcels' (or whatever else names the call)."""

    kind: Kind
    references: tuple[str, ...]
    companies: tuple[str, ...] = ()
    by: By = "call"
    # The credential that the call came with, hashed: bookings belong to it.
    owner: str = ""
    # A late commit spends its own delay instead of the carrier's latency.
    spends_latency: bool = True

    @property
    def key(self) -> str:
        """Return what seeded chance goes by; a call of several parcels is named by the first."""
        return self.references[0] if self.references else ""
