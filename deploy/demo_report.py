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
OUTAGE = "outage"


@dataclass
class Part:
    """One part of the demo, e.g. the outage, and what was seen in it, look by look."""

    name: str
    looks: list[dict[str, Any]] = field(default_factory=list)

    def by_name(self) -> dict[str, list[dict[str, Any]]]:
        """Return each strategy's figures, from the first look that had it on."""
        seen: dict[str, list[dict[str, Any]]] = {}
        for figures in self.looks:
            for target in figures["targets"]:
                seen.setdefault(target["name"], []).append({"at": figures["at"], **target})
        return seen

    def rows(self) -> list[dict[str, str]]:
        """Return a row per strategy, by heading."""
        return [self._row(name, seen) for name, seen in self.by_name().items()]

    def _row(self, name: str, seen: list[dict[str, Any]]) -> dict[str, str]:
        first, last = seen[0], seen[-1]
        canary = [canary_of(target) for target in seen]

        def grown(count: str) -> str:
            return str(int(last["clients"][count] - first["clients"][count]))

        waiting = max(target["waiting"] for target in seen)
        return {
            "part": self.name,
            "strategy": name,
            "sent": grown("sent"),
            "labels": str(int(last["announced"] - first["announced"])),
            "told later": grown("late"),
            "errors": grown("errors"),
            "other pages": seconds(median(canary)),
            "at worst": seconds(max(canary)),
            "workers waiting": f"{waiting} of {last['slots'] or '∞'}",
            "clients held": str(max(target["holds"] for target in seen)),
        }


def canary_of(target: dict[str, Any]) -> float:
    """Return the seconds of a target's canary, endless where it had no answer."""
    found: float | None = target["canary"]
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
    seen = next(part.by_name() for part in parts if part.name == OUTAGE)
    slowest = {name: max(map(canary_of, each)) for name, each in seen.items()}
    told = [
        f"{'some not at all' if worst == math.inf else f'within {seconds(worst)}'} with {name}"
        for name, worst in sorted(slowest.items(), key=lambda item: item[1])
    ]
    return f"While the carrier hung, other pages answered {' and '.join(told)}."


def summary(parts: list[Part]) -> str:
    """Return the table as Markdown whose columns stand below each other, and what they mean."""
    found = [row for part in parts for row in part.rows()]
    rows = [[*found[0]], *(list(row.values()) for row in found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * width for width in widths])
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(["", *lines, "", MEANING, ""])


def write_report(folder: Path, parts: list[Part]) -> Path:
    """Write report.md and its chart; return the report's path."""
    folder.mkdir(parents=True, exist_ok=True)
    began = parts[0].looks[0]["at"]
    lines: dict[str, list[Point]] = {}
    for part in parts:
        for name, seen in part.by_name().items():
            points = [(target["at"] - began, canary_of(target)) for target in seen]
            lines.setdefault(name, []).extend(points)
    hung = [one["at"] - began for part in parts if part.name == OUTAGE for one in part.looks]
    (folder / CHART).write_text(chart(lines, (min(hung), max(hung))))
    target = folder / "report.md"
    words = f"# Demo\n\n**{verdict(parts)}**\n\n![Other pages answer in]({CHART})\n{summary(parts)}"
    target.write_text(f"{words}\nTo measure instead of to see: `make bench`.\n")
    return target
