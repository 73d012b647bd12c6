"""The report: one HTML file that needs nothing else, the same as Markdown, the raw data beside."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template
from typing import Any

from loadtests.aggregate import Group, comparable, groups
from loadtests.charts import Chart, charts
from loadtests.markdown import markdown
from loadtests.palette import colours
from loadtests.tables import (
    Table,
    books_table,
    errors_table,
    littles_table,
    number,
    percent,
    server_table,
    stream_tables,
)
from loadtests.verdict import cautions, outage_sentence, verdict

ASSETS = Path(__file__).parent / "assets"


@dataclass(frozen=True, slots=True)
class Section:
    """One scenario under one variant."""

    name: str
    title: str
    question: str
    sentence: str
    tables: tuple[Table, ...]
    charts: tuple[Chart, ...]
    notes: tuple[str, ...]
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Content:
    """All that a report says, before it is HTML or Markdown."""

    began: str
    sentences: tuple[str, ...]
    cautions: tuple[str, ...]
    sections: tuple[Section, ...]
    card: tuple[tuple[str, str], ...]
    unavailable: Mapping[str, str]
    colours: Mapping[str, str]
    families: Mapping[str, str]


def write_report(results: Sequence[Mapping[str, Any]], folder: Path) -> Path:
    """Write `interactive.html`, `report.md` and its pictures; return the HTML's path."""
    found = content(results)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "interactive.html"
    target.write_text(page(found))
    markdown(found, folder)
    return target


def content(results: Sequence[Mapping[str, Any]]) -> Content:
    """Return what is to be said of the raw data of one bench or several."""
    results = comparable(results)
    every = groups(results)
    sections = tuple(_sections(results, every))
    families = {group.strategy: group.family for group in every if group.family}
    return Content(
        began=results[0]["began"],
        sentences=tuple(section.sentence for section in sections),
        cautions=tuple(cautions(results, every)),
        sections=sections,
        card=tuple(_card(results)),
        unavailable=results[0]["unavailable"],
        colours=colours(families.items()),
        families=families,
    )


def _sections(results: Sequence[Mapping[str, Any]], every: list[Group]) -> Iterator[Section]:
    facts = {name: fact for result in results for name, fact in result["scenarios"].items()}
    for key in dict.fromkeys((group.scenario, group.variant, group.sizing) for group in every):
        mine = [group for group in every if (group.scenario, group.variant, group.sizing) == key]
        scenario, variant, sizing = key
        sizings = list(dict.fromkeys(group.sizing for group in every if group.scenario == scenario))
        aside = [variant, sizing if len(sizings) > 1 else ""]
        number_ = str(sizings.index(sizing) + 1) if sizing != sizings[0] else ""
        name = " ".join(filter(None, [scenario, variant, number_]))
        yield _section(name, ", ".join(filter(None, aside)), facts[scenario], mine)


def _section(name: str, aside: str, facts: Mapping[str, Any], mine: list[Group]) -> Section:
    title = f"{facts['title']} ({aside})" if aside else facts["title"]
    sentence = f"{verdict(title, mine)} {outage_sentence(mine)}".strip()
    more = [books_table(mine), littles_table(mine), errors_table(mine)]
    notes = [f"{group.strategy}: {note}" for group in mine for note in group.notes]
    return Section(
        name=name,
        title=title,
        question=facts["question"],
        sentence=sentence,
        tables=(*stream_tables(mine), server_table(mine), *filter(None, more)),
        charts=tuple(charts(mine)),
        notes=tuple(dict.fromkeys(notes)),
        parameters=facts["parameters"],
    )


def _card(results: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    result = results[0]
    machine, ceiling = result["machine"], result["ceiling"]
    cores = f"{machine['cores']} × {machine['processor']}, {machine['architecture']}"  # noqa: RUF001
    yield "Machine", f"{cores}, {machine['memory_gb']} GB, {machine['system']}"
    yield (
        "Generator's own ceiling",
        (
            f"{number(ceiling['requests_per_second'])} per s at a server that does nothing; "
            f"at {ceiling['paced_rate']} per s {percent(ceiling['paced_late_share'])} of the sends "
            f"late, p99 {number(ceiling['paced_p99'])} s; {ceiling['generators']} process(es)"
        ),
    )
    yield "Size", "; ".join(dict.fromkeys(str(part["sizing"]) for part in results))
    equal = ", ".join(f"{key}={value}" for key, value in result["equal"].items())
    yield "The same for all", f"{equal}, where a scenario's own environment says nothing else"
    yield "Stores", "PostgreSQL with fsync, Redis without persistence, both on this machine"
    yield "Yardstick", result["yardstick"]
    yield "Python", machine["python"]
    yield "Packages", ", ".join(f"{key} {value}" for key, value in machine["packages"].items())
    yield "Programs", "; ".join(machine["programs"].values())
    for part in results:
        if part["runs"]:
            yield f"Run {part['began']}", _part(part)


def _part(result: Mapping[str, Any]) -> str:
    """Return what one part ran, and what may differ from the other parts."""
    scenarios = ", ".join(dict.fromkeys(run["scenario"] for run in result["runs"]))
    machine = result["machine"]
    return (
        f"{scenarios}: {'quick' if result['quick'] else 'full'} form, {result['sizing']}, "
        f"{result['repeats']} of each in random order (seed {result['seed']}), "
        f"commit {machine.get('commit') or 'not known'}, load before {machine['load_before']}"
    )


def page(found: Content) -> str:
    """Return the HTML."""
    drawn = [asdict(chart) for section in found.sections for chart in section.charts]
    data = {"charts": drawn, "colours": found.colours, "families": found.families}
    return Template((ASSETS / "report.html").read_text()).substitute(
        began=_e(found.began),
        uplot_css=(ASSETS / "uPlot.min.css").read_text(),
        css=(ASSETS / "report.css").read_text(),
        uplot_js=(ASSETS / "uPlot.iife.min.js").read_text(),
        js=(ASSETS / "report.js").read_text(),
        # A script's text ends at "</", wherever it stands.
        data=json.dumps(data, separators=(",", ":")).replace("</", "<\\/"),
        sentences="".join(f"<p>{_e(sentence)}</p>" for sentence in found.sentences),
        cautions=_list(found.cautions),
        legend=_legend(found),
        sections="".join(_sections_html(found)),
        card="".join(
            f"<tr><th>{_e(key)}</th><td>{_e(value)}</td></tr>" for key, value in found.card
        ),
        unavailable=_list([f"{name}: {why}" for name, why in found.unavailable.items()])
        or "<p>None: all strategies run here.</p>",
    )


def _e(text: str) -> str:
    return html.escape(text)


def _list(items: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{_e(item)}</li>' for item in items)}</ul>" if items else ""


def _legend(found: Content) -> str:
    ordered = sorted(found.colours, key=lambda name: (found.families[name], name))
    return "".join(
        f'<button type="button" data-strategy="{_e(name)}" style="--c:{found.colours[name]}" '
        f'class="{"held" if found.families[name].startswith("is held") else "waits"}">'
        f"{_e(name)}</button>"
        for name in ordered
    )


def _sections_html(found: Content) -> Iterator[str]:
    number_ = 0
    for section in found.sections:
        figures = []
        for chart in section.charts:
            figures.append(
                f"<figure><figcaption><b>{_e(chart.title)}</b> {_e(chart.hint)}</figcaption>"
                f'<div class="chart" data-chart="{number_}"></div><p class="value"></p></figure>'
            )
            number_ += 1
        settings = ", ".join(f"{key} {value}" for key, value in section.parameters.items())
        yield (
            f"<section><h2>{_e(section.title)}</h2><p>{_e(section.question)}</p>"
            f'<p class="hint">{_e(section.name)}: {_e(settings)}</p>'
            f"{''.join(map(_table, section.tables))}{_list(section.notes)}"
            f'<div class="charts">{"".join(figures)}</div></section>'
        )


def _cell(value: str) -> str:
    """Put a range on a line of its own: side by side the columns would not fit."""
    median, _, extent = value.partition(" (")
    return f"{_e(median)}<br><small>{_e(extent.rstrip(')'))}</small>" if extent else _e(value)


def _table(table: Table) -> str:
    head = "".join(f"<th>{_e(name)}</th>" for name in table.head)
    rows = "".join(
        f"<tr><th>{_e(row[0])}</th>{''.join(f'<td>{_cell(value)}</td>' for value in row[1:])}</tr>"
        for row in table.rows
    )
    return (
        f'<h3>{_e(table.title)}</h3><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f'<tbody>{rows}</tbody></table></div><p class="hint">{_e(table.hint)}</p>'
    )
