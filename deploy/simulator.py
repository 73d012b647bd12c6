"""The simulated carriers' control API (carriers/simulator/README.md)."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deploy.loopback import ask, ask_json

# Seconds: a lookup that gets no answer counts as one that took so long.
LOOKUP_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Books:
    """What the ledger says; `doubled` counts references that were paid for more than once."""

    booked: int
    doubled: int

    def __sub__(self, before: "Books") -> "Books":
        return Books(self.booked - before.booked, self.doubled - before.doubled)


class Simulator:
    """The simulator of a deployment's environment.

    What it refuses is a RuntimeError; where nobody answers within `seconds` an OSError.
    """

    def __init__(self, environment: Mapping[str, str], *, seconds: float = 30.0) -> None:
        self._url = environment["SIMULATOR_URL"]
        self._lookups = environment["CARRIER_URL_POSTNL"]
        self._seconds = seconds

    def set_latency(self, carrier: str, latency: Mapping[str, Any]) -> None:
        """Set `{"fixed": s}` or `{"p50": s, "p95": s}` for calls from now on."""
        self._ask(f"/carriers/{carrier}/latency", latency, "PUT")

    def fault(self, carrier: str, kind: str, settings: Mapping[str, Any]) -> None:
        self._ask(f"/carriers/{carrier}/faults/{kind}", settings, "PUT")

    def set_lookup_lag(self, carrier: str, seconds: float) -> None:
        """Set after how long a booking is listed."""
        self._ask(f"/carriers/{carrier}", {"lookup_lag": seconds}, "PUT")

    def heal(self, carrier: str | None = None) -> None:
        """End all of a carrier's faults, or of all carriers'."""
        place = "" if carrier is None else f"/carriers/{carrier}"
        self._ask(f"{place}/faults", method="DELETE")

    def reset(self) -> None:
        """Put faults, latencies and settings back to how the process began."""
        self._ask("/reset", method="POST")

    def carriers(self) -> list[dict[str, Any]]:
        """Return each carrier's `code`, `name`, `calls` so far and calls `in_flight`."""
        return list(self._ask("/carriers")["carriers"])

    def faults(self) -> list[dict[str, Any]]:
        """Return each fault's `carrier`, `kind`, `params` and `state`."""
        return list(self._ask("/faults")["faults"])

    def in_flight(self) -> int:
        """Return how many calls carriers have under way."""
        return sum(carrier["in_flight"] for carrier in self.carriers())

    def books(self) -> Books:
        """Return the sums over all carriers."""
        parts = self._ask("/ledger/summary").values()
        return Books(
            booked=sum(part["booked"] for part in parts),
            doubled=sum(part["double_booked"] for part in parts),
        )

    def lookup_seconds(self) -> float:
        """Return how long a lookup takes, which has no simulated latency: the process's own delay.

        At a carrier's own port, as the app's calls; nothing is booked. One that fails is no quick
        one: it counts as LOOKUP_PATIENCE.
        """
        began = time.monotonic()
        address = f"{self._lookups}/shipments?reference=load-test-lookup"
        key = {"Authorization": "Bearer load-test"}  # without one a call ends before the lookup
        try:
            status, _ = ask(address, more=key, seconds=LOOKUP_PATIENCE)
        except OSError:
            return LOOKUP_PATIENCE
        return time.monotonic() - began if status == 200 else LOOKUP_PATIENCE

    def _ask(self, path: str, body: object = None, method: str | None = None) -> Any:
        return ask_json(self._url + path, body, method=method, seconds=self._seconds)
