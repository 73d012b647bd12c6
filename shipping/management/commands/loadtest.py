"""The load tests by Django's door: `manage.py loadtest …` is `python -m loadtests …`.

They start whole deployments, and share neither settings nor database with this process.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from deploy.plan import ROOT


class Command(BaseCommand):
    help = "Run the load tests: arguments and exit codes are those of `python -m loadtests`."

    def run_from_argv(self, argv: list[str]) -> None:
        """Hand all arguments on unread, `--help` among them."""
        self.handle(arguments=argv[2:])

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("arguments", nargs="*", help="see `manage.py loadtest --help`")

    def handle(self, *args: Any, arguments: list[str], **options: Any) -> None:
        """Become that process: its exit code is ours, and a signal reaches it."""
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        line = [sys.executable, "-m", "loadtests", *arguments]
        os.execve(sys.executable, line, {**os.environ, "PYTHONPATH": path})  # noqa: S606
