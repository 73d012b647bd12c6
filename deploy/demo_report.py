"""What the demo measured, by part and strategy: a table for the terminal and for report.md.

For seeing one outage; `loadtests` measures, with every strategy on its own on the machine.
"""

import math
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
        self.canary.append(canary_of(target))
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


def canary_of(target: dict[str, Any]) -> float:
    """Return the seconds of a target's canary, endless where it had no answer."""
    found: float | None = target["canary"]["now"]
    return math.inf if found is None else found


def seconds(value: float) -> str:
    """Return a length of time as people write it."""
    if value == math.inf:
        return "no answer"
    return f"{value * 1000:.0f} ms" if value < 0.1 else f"{value:.1f} s"


MEANING = (
    "labels: announced at the carrier; later: answered 202, the label comes later; "
    "canary: a page that needs no carrier; "
    "waiting: workers that waited for a carrier, the most at once; "
    "held: clients held without a worker, the most at once."
)


def summary(parts: list[Part]) -> str:
    """Return the table as Markdown whose columns stand below each other, and what they mean."""
    rows = [[*HEADINGS], *(row for part in parts for row in part.rows())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    rows.insert(1, ["-" * width for width in widths])
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(["", *lines, "", MEANING, ""])


def write_report(folder: Path, parts: list[Part]) -> Path:
    """Write report.md; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "report.md"
    target.write_text(f"# Demo\n{summary(parts)}")
    return target
