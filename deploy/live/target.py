"""What is watched: one running stack, as its environment describes it."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from deploy.env_file import read_env_file
from deploy.plan import CARRIERS
from deploy.strategy import Strategy, load


@dataclass(frozen=True)
class Target:
    """One stack: its environment, and the processes that belong to it (`roots` and below)."""

    environment: Mapping[str, str]
    roots: Callable[[], list[int]]

    @cached_property
    def strategy(self) -> Strategy:
        """Return the strategy that it runs."""
        return load(self.environment["STRATEGY"])

    @property
    def name(self) -> str:
        """Return the strategy's name."""
        return self.environment["STRATEGY"]

    @property
    def holds(self) -> bool:
        """Say whether clients are held without a worker."""
        return self.strategy.family == "is held by a front"

    @property
    def base_url(self) -> str:
        """Return the address that clients use."""
        return f"http://127.0.0.1:{self.environment['PORT']}"

    @property
    def metrics_dir(self) -> Path:
        """Return where the stack's processes keep their metrics."""
        return Path(self.environment["PROMETHEUS_MULTIPROC_DIR"])

    @cached_property
    def login(self) -> tuple[str, str]:
        """Return the demo account's keys."""
        accounts = read_env_file(Path(self.environment["ACCOUNTS_FILE"]))
        return accounts["PUBLIC_KEY"], accounts["SECRET_KEY"]

    @property
    def carriers(self) -> list[str]:
        """Return the codes of the simulated carriers."""
        return [code.lower() for code in CARRIERS]

    def bulkhead(self, carrier: str) -> int:
        """Return how many calls may be in flight to a carrier."""
        of_all = self.environment.get("CARRIER_BULKHEAD", "400")
        return int(self.environment.get(f"CARRIER_BULKHEAD_{carrier.upper()}", of_all))

    @property
    def slots(self) -> int | None:
        """Return how many requests the workers serve at once; None where nothing bounds them."""
        return self.strategy.slots_in(self.environment)


def from_environment() -> Target:
    """Return the stack whose launcher has started this process."""
    return Target(dict(os.environ), lambda: [os.getppid()])
