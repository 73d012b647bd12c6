"""The report as Markdown, with pictures for where no script runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loadtests.pictures import draw
from loadtests.tables import Table

if TYPE_CHECKING:
    from loadtests.report import Content, Section


def markdown(found: Content, folder: Path) -> None:
    """Write `report.md` and `pictures/*.svg`."""
    pictures = folder / "pictures"
    pictures.mkdir(exist_ok=True)
    for stale in pictures.glob("*.svg"):
        stale.unlink()
    lines = [f"# Load tests, {found.began}", ""]
    lines += [line for sentence in found.sentences for line in (sentence, "")]
    lines += [*_list(found.cautions)]
    lines += ["Interactive, with the same data: [interactive.html](interactive.html).", ""]
    for section in found.sections:
        lines += _section(section, found, pictures)
    lines += ["## How it was measured", "", "| | |", "|---|---|"]
    lines += [f"| {key} | {_cell(value)} |" for key, value in found.card]
    lines += ["", "Can't run here:", ""] if found.unavailable else []
    lines += [*_list([f"{name}: {why}" for name, why in found.unavailable.items()])]
    (folder / "report.md").write_text("\n".join(lines).rstrip() + "\n")


def _section(section: Section, found: Content, pictures: Path) -> Iterator[str]:
    yield from (f"## {section.title}", "", section.question, "")
    for table in section.tables:
        yield from _table(table)
    yield from _list(section.notes)
    for number, chart in enumerate(section.charts, 1):
        name = f"{section.name.replace(' ', '-')}-{number:02}.svg"
        draw(chart, found.colours, pictures / name)
        yield from (f"**{chart.title}.** {chart.hint}", "")
        yield from (f"![{chart.title}](pictures/{name})", "")


def _table(table: Table) -> Iterator[str]:
    yield from (f"### {table.title}", "")
    yield f"| {' | '.join(table.head)} |"
    yield f"|---|{'---:|' * (len(table.head) - 1)}"
    for row in table.rows:
        yield f"| {' | '.join(map(_cell, row))} |"
    yield ""
    if table.hint:
        yield from (table.hint, "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _list(items: Sequence[str]) -> Iterator[str]:
    for item in items:
        yield f"- {_cell(item)}"
    if items:
        yield ""
