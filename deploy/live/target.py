"""What is watched: one running stack, as its environment describes it."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path

from deploy.env_file import read_env_file
from deploy.plan import ADMIT, CARRIERS
from deploy.strategy import Strategy, load

# What a server's size is made of; each that a strategy's files name is a factor.
SIZES = ("WEB_WORKERS", "WEB_THREADS", "WEB_GREENLETS")
# Likewise a number of threads that is no variable.
THREADS = re.compile(r"^threads = (\d+)$", re.MULTILINE)
# These make a thread or a coroutine for each request: they have no number of slots.
BOUNDLESS = re.compile(r"\b(uvicorn|runserver)\b")
# A process that runs the application: one, or one per node.
NODE = re.compile(r"web\d*")


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
        given = self.environment.get("PROMETHEUS_MULTIPROC_DIR")
        return Path(given or f"{self.environment['RUN_DIR']}/metrics")

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

    @cached_property
    def slots(self) -> int | None:
        """Return how many requests the workers serve at once; None where nothing bounds them."""
        web = self.strategy.processes.get("web", "")
        if self.strategy.backend == "asgi":
            return int(self.environment.get("OFFLOAD_ADMIT", ADMIT)) * int(
                self.environment["WEB_WORKERS"]
            )
        if BOUNDLESS.search(web):
            return None
        files = [path for path in self.strategy.folder.iterdir() if path.suffix != ".md"]
        text = "".join(path.read_text() for path in files if path.is_file())
        nodes = sum(NODE.fullmatch(name) is not None for name in self.strategy.processes)
        sizes = [int(self.environment.get(name, 1)) for name in SIZES if name in text]
        return nodes * prod(sizes) * prod(map(int, THREADS.findall(text)))


def from_environment() -> Target:
    """Return the stack whose launcher has started this process."""
    return Target(dict(os.environ), lambda: [os.getppid()])
