"""What the demo measured, by part and strategy: a table for the terminal and as Markdown.

For seeing one outage; `loadtests` measures, with every strategy on its own on the machine.
"""

from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

HEADINGS = (
    "part",
    "strategy",
    "sent",
    "labels",
    "later",
    "errors",
    "canary p50",
    "worst",
    "waiting",
    "held",
)


@dataclass
class Seen:
    """One strategy in one part: first and last counts, and what lay between."""

    first: dict[str, Any]
    last: dict[str, Any] = field(default_factory=dict)
    canary: list[float] = field(default_factory=list)
    waiting: int = 0
    held: int = 0

    def add(self, target: dict[str, Any]) -> None:
        """Take one look in."""
        self.last = target
        self.canary.append(target["canary"]["now"])
        self.waiting = max(self.waiting, target["waiting"])
        self.held = max(self.held, target["holds"])

    def grown(self, name: str) -> int:
        """Return by how much one of the clients' counts has grown."""
        return int(self.last["clients"][name] - self.first["clients"][name])


@dataclass
class Part:
    """One part of the demo, e.g. the outage."""

    name: str
    seen: dict[str, Seen] = field(default_factory=dict)

    def add(self, figures: dict[str, Any]) -> None:
        """Take one look's figures in."""
        for target in figures["targets"]:
            self.seen.setdefault(target["name"], Seen(target)).add(target)

    def rows(self) -> list[list[str]]:
        """Return a row per strategy, as HEADINGS has it."""
        return [
            [
                self.name,
                name,
                str(seen.grown("sent")),
                str(int(seen.last["announced"] - seen.first["announced"])),
                str(seen.grown("late")),
                str(seen.grown("errors")),
                seconds(median(seen.canary)),
                seconds(max(seen.canary)),
                f"{seen.waiting} of {seen.last['slots'] or '∞'}",
                str(seen.held),
            ]
            for name, seen in self.seen.items()
        ]


def seconds(value: float) -> str:
    """Return a length of time as people write it."""
    return f"{value * 1000:.0f} ms" if value < 0.1 else f"{value:.1f} s"


MEANING = (
    "labels: announced at the carrier; later: answered 202, the label comes later; "
    "canary: a cheap read; waiting: workers that waited for a carrier, the most at once; "
    "held: clients held without a worker, the most at once."
)


def summary(parts: list[Part]) -> str:
    """Return the table for the terminal, as plain lines of columns."""
    rows = [HEADINGS, *(row for part in parts for row in part.rows())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = []
    for row in rows:
        left = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        lines.append("  ".join([*left, *right]))
    return "\n".join(["", lines[0], "-" * len(lines[0]), *lines[1:], "", MEANING])


def write_report(folder: Path, parts: list[Part]) -> Path:
    """Write report.md; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [row for part in parts for row in part.rows()]
    lines = [HEADINGS, ["---"] * len(HEADINGS), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    target = folder / "report.md"
    target.write_text(f"# Demo\n\n{table}\n\n{MEANING}\n")
    return target
