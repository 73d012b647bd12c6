"""List the ways to serve this application, and what this machine lacks for them."""

from __future__ import annotations

from typing import Any

from deploy import strategy as strategies
from shipping.terminal import TerminalCommand


class Command(TerminalCommand):
    help = "List the strategies: name, family, needs, and whether this machine has them."

    def handle(self, *args: Any, json: bool, **options: Any) -> None:
        found = [strategies.load(name) for name in strategies.names()]
        self.show([_row(strategy) for strategy in found], as_json=json)


def _row(strategy: strategies.Strategy) -> dict[str, Any]:
    return {
        "strategy": strategy.name,
        "family": strategy.family,
        "needs": [*strategy.needs.binaries, *strategy.needs.modules] or "nothing",
        "state": strategies.why_unavailable(strategy) or "available",
    }
