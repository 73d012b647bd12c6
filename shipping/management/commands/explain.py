"""Say how a strategy serves: what holds the socket, its processes, its needs, its README."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from typing import Any

from deploy import strategy as strategies
from shipping.terminal import TerminalCommand, Trouble

# By backend: what keeps the client's connection while a carrier is being waited for, and which
# headers go over the wire between app and front (the client sees none of them).
HOLDERS = {
    "inline": (
        "the worker that took the request; it serves no other request",
        "none: no held answer",
    ),
    "async": ("the event loop of the web process; a coroutine waits", "none: no held answer"),
    "asgi": (
        "the ASGI middleware in the web process; Django has answered long before",
        "none: Django and the middleware are one process",
    ),
    "accel": (
        "nginx, which asks the hub for the client",
        "app → nginx: X-Accel-Redirect: /_offload/hold/<ticket>",
    ),
    "njs": (
        "nginx, whose script waits on the hub",
        "app → nginx: status 418 and X-Offload-Ticket",
    ),
    "poll": (
        "nginx, whose script asks the app once a second",
        "app → nginx: status 418 and X-Offload-Ticket",
    ),
    "uwsgi": (
        "uWSGI's offload thread, which copies bytes between the client and the hub",
        "app → uWSGI: X-Offload-Ticket, which a route reads and removes",
    ),
}


class Command(TerminalCommand):
    help = "Explain a strategy: what holds the socket, the headers on the wire, its processes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("strategy")

    def handle(self, *args: Any, strategy: str, json: bool, **options: Any) -> None:
        try:
            found = strategies.load(strategy)
        except strategies.StrategyError as error:
            raise Trouble(str(error), "make strategies") from None
        facts = _facts(found)
        if json:
            self.show([facts], as_json=True)
            return
        self.show([{"": name, " ": value} for name, value in facts.items()], as_json=False)
        for name, line in found.processes.items():
            self.stdout.write(f"\n{name}:\n  {line}")
        readme = found.folder / "README.md"
        if readme.exists():
            self.stdout.write("")
            self.show_page(_for_a_terminal(readme.read_text()))


def _facts(strategy: strategies.Strategy) -> dict[str, Any]:
    holder, headers = HOLDERS[strategy.backend]
    return {
        "strategy": strategy.name,
        "title": strategy.title,
        "family": strategy.family,
        "holds the socket": holder,
        "on the wire": headers,
        "processes": list(strategy.processes),
        "needs": [*strategy.needs.binaries, *strategy.needs.modules],
        "state": strategies.why_unavailable(strategy) or "available",
        "start": f"make run STRATEGY={strategy.name}",
    }


def _for_a_terminal(text: str) -> str:
    """Return it without its title, which stands above, and its diagram's source."""
    return re.sub(r"\A# [^\n]*\n+|^```mermaid\n.*?^```\n+", "", text, flags=re.M | re.S).rstrip()
