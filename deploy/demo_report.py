"""What the demo measured: a verdict, a chart, and a table by part and strategy.

For seeing one outage; `loadtests` measures, with every strategy on its own on the machine.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from deploy.demo_chart import Point, chart

CHART = "other-pages.svg"
HEADINGS = (
    "part",
    "strategy",
    "sent",
    "labels",
    "told later",
    "errors",
    "other pages",
    "at worst",
    "workers waiting",
    "clients held",
)
OUTAGE = "outage"


@dataclass
class Seen:
    """One strategy in one part: first and last counts, and what lay between."""

    first: dict[str, Any]
    last: dict[str, Any] = field(default_factory=dict)
    canary: list[float] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    waiting: int = 0
    held: int = 0

    def add(self, target: dict[str, Any], at: float) -> None:
        """Take one look in."""
        self.last = target
        self.at.append(at)
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
            self.seen.setdefault(target["name"], Seen(target)).add(target, figures["at"])

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
    "labels: announced at the carrier; told later: answered 202, the label comes later; "
    "other pages: what a page that needs no carrier answers in, the median and the slowest; "
    "workers waiting: for a carrier, the most at once; "
    "clients held: without a worker, the most at once."
)


def verdict(parts: list[Part]) -> str:
    """Return what the demo has shown, in a sentence; the best comes first."""
    seen = next(part.seen for part in parts if part.name == OUTAGE)
    slowest = {name: max(each.canary) for name, each in seen.items()}
    told = [
        f"{'some not at all' if worst == math.inf else f'within {seconds(worst)}'} with {name}"
        for name, worst in sorted(slowest.items(), key=lambda item: item[1])
    ]
    return f"While the carrier hung, other pages answered {' and '.join(told)}."


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
    """Write report.md and its chart; return the report's path."""
    folder.mkdir(parents=True, exist_ok=True)
    began = min(min(seen.at) for part in parts for seen in part.seen.values())
    lines: dict[str, list[Point]] = {}
    for part in parts:
        for name, seen in part.seen.items():
            points = zip(seen.at, seen.canary, strict=True)
            lines.setdefault(name, []).extend((at - began, value) for at, value in points)
    hung = [at - began for part in parts if part.name == OUTAGE
            for seen in part.seen.values() for at in seen.at]  # fmt: skip
    (folder / CHART).write_text(chart(lines, (min(hung), max(hung))))
    target = folder / "report.md"
    words = f"# Demo\n\n**{verdict(parts)}**\n\n![Other pages answer in]({CHART})\n{summary(parts)}"
    target.write_text(f"{words}\nTo measure instead of to see: `make bench`.\n")
    return target
