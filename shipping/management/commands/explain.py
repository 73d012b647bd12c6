"""Say how a strategy serves: its processes, its needs, its README."""

import re
from argparse import ArgumentParser
from typing import Any

from deploy import strategy as strategies
from shipping.terminal import TerminalCommand, Trouble


class Command(TerminalCommand):
    help = "Explain a strategy: its processes, what holds the socket, the headers on the wire."

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
    return {
        "strategy": strategy.name,
        "title": strategy.title,
        "family": strategy.family,
        "processes": list(strategy.processes),
        "needs": [*strategy.needs.binaries, *strategy.needs.modules],
        "state": strategies.why_unavailable(strategy) or "available",
        "start": f"make run STRATEGY={strategy.name}",
    }


def _for_a_terminal(text: str) -> str:
    """Return it without its title, which stands above, and its diagram's source."""
    return re.sub(r"\A# [^\n]*\n+|^```mermaid\n.*?^```\n+", "", text, flags=re.M | re.S).rstrip()
