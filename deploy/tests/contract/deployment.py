"""What the suite knows of a running strategy, besides its address."""

from contextlib import contextmanager

import pytest

from deploy.tests.contract.shop import Shop
from deploy.tests.waiting import get, until


class Deployment:
    """A stack, its two shops, and its holds."""

    def __init__(self, stack):
        self.stack = stack
        self.strategy = stack.strategy
        self.name = stack.strategy.name
        self.port = int(stack.env["PORT"])
        keys = stack.accounts
        self.shop = Shop(self.port, keys["PUBLIC_KEY"], keys["SECRET_KEY"])
        self.other_shop = Shop(self.port, keys["PUBLIC_KEY_2"], keys["SECRET_KEY_2"])

    @property
    def holds_clients(self):
        return self.strategy.family == "is held by a front"

    @property
    def hubs(self):
        return [name for name in self.stack.names if name.startswith("hub")]

    def held_now(self):
        """Return how many clients are held; None where nobody counts them."""
        if not self.hubs:
            return None
        return sum(self._held_at(self.stack.env[f"{hub.upper()}_BIND"]) for hub in self.hubs)

    def _held_at(self, address):
        page = get(f"http://{address}/metrics")
        line = next(line for line in page.splitlines() if line.startswith("offload_holds "))
        return int(line.split()[1])

    def until_held(self, count):
        """Wait until that many are held; where nobody counts, until they had time to be."""
        if self.hubs:
            until(lambda: self.held_now() >= count, f"{count} holds", seconds=60)

    @contextmanager
    def workers_paused(self):
        """Let nothing be announced meanwhile."""
        workers = [name for name in self.stack.names if name.startswith("worker")]
        for name in workers:
            self.stack.pause(name)
        try:
            yield
        finally:
            for name in workers:
                self.stack.resume(name)

    @contextmanager
    def unless_it_cannot(self, what):
        """Run what every strategy must do, or see that a declared inability is true.

        `[cannot]` in strategy.toml names it with its reason. A strategy that can after all must
        not go on saying that it can't.
        """
        if what not in self.strategy.cannot:
            yield
            return
        try:
            yield
        except (AssertionError, OSError):
            return
        pytest.fail(f"{self.name} says that it can't ({what}), and it can")
