"""What commands print: a table on a terminal, plain lines in a pipe, or JSON."""

import json
import os
import shlex
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from deploy.plan import ROOT

# Words that mean good or bad news, wherever they stand first in a cell. The colour only repeats
# what the word says.
GOOD = ("there", "available", "closed", "yes", "ready")
BAD = ("missing", "open", "no", "not")


class Trouble(CommandError):
    """A command failed: the cause, and the command to try next."""

    def __init__(self, cause: str, following: str) -> None:
        super().__init__(f"{cause}\nNext: {following}")


def manage(arguments: str) -> str:
    """Return the line to type for another command: by the Python and on the run of this one."""
    python = Path(sys.executable)
    shown = python.relative_to(ROOT) if python.is_relative_to(ROOT) else python
    run_dir = os.environ.get("RUN_DIR", "")
    usual = Path(run_dir or ROOT / ".run").resolve() == (ROOT / ".run").resolve()
    where = "" if usual else f"RUN_DIR={shlex.quote(run_dir)} "
    return f"{where}{shlex.quote(str(shown))} manage.py {arguments}"


class TerminalCommand(BaseCommand):
    """A command with `--json`, which needs no database and no secrets."""

    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add `--json`; call it from an overriding method."""
        parser.add_argument("--json", action="store_true", help="print JSON")

    def show(self, rows: Sequence[dict[str, Any]], *, as_json: bool) -> None:
        """Print rows that all have the same keys."""
        if as_json:
            self.stdout.write(json.dumps(list(rows), indent=2, default=str))
        elif self.stdout.isatty():
            self._show_table(rows)
        else:
            self._show_lines(rows)

    def show_page(self, text: str) -> None:
        """Print Markdown: on a terminal as it is meant, its tables drawn."""
        if not self.stdout.isatty():
            self.stdout.write(text)
            return
        self._draw(Markdown(text))

    def _show_lines(self, rows: Sequence[dict[str, Any]]) -> None:
        """One row a line, columns by two blanks: for grep and awk."""
        cells = [[_plain(value) for value in row.values()] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            self.stdout.write("  ".join(padded).rstrip())

    def _show_table(self, rows: Sequence[dict[str, Any]]) -> None:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for name in rows[0] if rows else ():
            table.add_column(name.replace("_", " "), overflow="fold")
        for row in rows:
            table.add_row(*(_coloured(_plain(value)) for value in row.values()))
        self._draw(table)

    def _draw(self, drawing: Markdown | Table) -> None:
        # The wrapper that Django puts around stdout adds line ends: so print into a string.
        console = Console(force_terminal=True, no_color="NO_COLOR" in os.environ)
        with console.capture() as capture:
            console.print(drawing)
        self.stdout.write(capture.get(), ending="")


def _plain(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return str(value) or "-"


def _coloured(text: str) -> Text:
    first = text.split(maxsplit=1)[0].strip(",;:") if text.split() else ""
    style = "green" if first in GOOD else "bold red" if first in BAD else ""
    return Text(text, style=style)
