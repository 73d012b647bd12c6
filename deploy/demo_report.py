"""What the demo measured, by part and strategy: a table for the terminal, Markdown and HTML.

For seeing one outage; `loadtests` measures, with every strategy on its own on the machine.
"""

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from deploy.live.app import ASSETS

_TEMPLATE = Path(__file__).parent / "demo_report.html"
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


def write_report(folder: Path, parts: list[Part], history: list[dict[str, Any]]) -> Path:
    """Write report.md, and report.html with its charts in one file; return the latter's path."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [HEADINGS, *(row for part in parts for row in part.rows())]
    lines = [rows[0], ["---"] * len(HEADINGS), *rows[1:]]
    markdown = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    (folder / "report.md").write_text(f"# Demo\n\n{markdown}\n\n{MEANING}\n")
    filled = _TEMPLATE.read_text()
    for name, value in {
        "STYLE": (ASSETS / "uPlot.min.css").read_text(),
        "CHARTS": (ASSETS / "uPlot.iife.min.js").read_text(),
        "MEANING": MEANING,
        "ROWS": "".join(_row(row, "td" if number else "th") for number, row in enumerate(rows)),
        "SERIES": json.dumps(_series(history)).replace("<", "\\u003c"),
    }.items():
        filled = filled.replace(f"%{name}%", value)
    target = folder / "report.html"
    target.write_text(filled)
    return target


def _row(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _series(history: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the charts' columns: times since the start, then canary and labels by strategy."""
    names = [target["name"] for target in history[-1]["targets"]] if history else []
    looks = [{target["name"]: target for target in look["targets"]} for look in history]
    return {
        "at": [round(look["at"] - history[0]["at"], 2) for look in history],
        "names": names,
        "canary": [[look[name]["canary"]["now"] for look in looks] for name in names],
        "labels": [[look[name]["goodput"] for look in looks] for name in names],
    }
