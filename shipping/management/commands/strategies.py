"""List the ways to serve this application, and what this machine lacks for them."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from deploy import strategy as strategies


class Command(BaseCommand):
    help = "List the strategies: name, family, needs, and whether this machine has them."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        for name in strategies.names():
            strategy = strategies.load(name)
            needs = ", ".join([*strategy.needs.binaries, *strategy.needs.modules]) or "nothing"
            state = strategies.why_unavailable(strategy) or "available"
            self.stdout.write(f"{name:17} {strategy.family:20} {needs:20} {state}")
