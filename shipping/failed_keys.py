"""A limit on keys that don't work, by address: each that is looked up costs a query.

By process and in memory: what is bounded is the database's work, and a failure that needed Redis
would only move it.
"""

from time import monotonic
from typing import Any

from parcels import limits
from shipping.client_address import client_network

# Addresses and keys that are remembered: some MB at most. Above it all are forgotten.
REMEMBERED = 10_000


class Failures:
    """Counts failures by address in windows of a minute."""

    def __init__(self) -> None:
        # By address: the window's end (monotonic), and how many failed in it.
        self.windows: dict[str, tuple[float, int]] = {}

    def wait(self, request: Any) -> float:
        """Return the seconds until the request's address may fail again; 0: now."""
        end, count = self.windows.get(client_network(request), (0.0, 0))
        return max(end - monotonic(), 0.0) if count >= limits.FAILED_KEYS else 0.0

    def count(self, request: Any) -> None:
        """Note a failure; without an address it would be everybody's."""
        if not (address := client_network(request)):
            return
        end, count = self.windows.get(address, (0.0, 0))
        if end <= monotonic():
            end, count = monotonic() + 60, 0
        if len(self.windows) >= REMEMBERED:
            self.windows.clear()
        self.windows[address] = end, count + 1


FAILURES = Failures()
