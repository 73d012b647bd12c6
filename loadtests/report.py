"""The report of one bench or several: Markdown and pictures, made of the raw data alone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from loadtests import scenario
from loadtests.aggregate import Group, comparable, groups
from loadtests.cautions import cautions
from loadtests.charts import Chart, chart
from loadtests.pictures import colours, draw
from loadtests.tables import (
    books_table,
    cell,
    errors_table,
    markdown,
    number,
    percent,
    process_table,
    server_table,
    stream_tables,
)

Result = Mapping[str, Any]


def write_report(results: Sequence[Result], folder: Path) -> Path:
    """Write `report.md` and `pictures/*.svg`; return the former's path."""
    results = comparable(results)
    every = groups(results)
    pictures = folder / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    for stale in pictures.glob("*.svg"):
        stale.unlink()
    families = colours({group.strategy: group.family for group in every})
    lines = [f"# Load tests, {results[0]['began']}", "", *_list(cautions(results, every))]
    known = {name: facts for result in results for name, facts in result["scenarios"].items()}
    for of, variant in dict.fromkeys((group.scenario, group.variant) for group in every):
        facts = known[of]
        mine = [group for group in every if (group.scenario, group.variant) == (of, variant)]
        title = facts["title"] + (f" ({variant})" if variant else "")
        lines += [f"## {title}", "", facts["question"], ""]
        tables = [*stream_tables(mine), server_table(mine), process_table(mine), books_table(mine)]
        tables.append(errors_table(mine))
        for table in filter(None, tables):
            lines += [f"### {table.title}", "", *markdown(table), ""]
            lines += [table.hint, ""] if table.hint else []
        notes = (f"{group.strategy}: {note}" for group in mine for note in group.notes)
        lines += _list(dict.fromkeys(notes))
        for number_, wanted in enumerate(_charts(of, facts), 1):
            if rows := _rows(wanted, mine, every):
                picture = f"{of} {variant}".strip().replace(" ", "-") + f"-{number_}.svg"
                draw(rows, families, pictures / picture)
                lines += [f"![{rows[0][0].title}](pictures/{picture})", ""]
    lines += ["## How it was measured", "", "| | |", "|---|---|"]
    lines += [f"| {key} | {cell(value)} |" for key, value in _card(results)]
    if unavailable := results[0]["unavailable"]:
        lines += ["", "Can't run here:", ""]
        lines += _list(f"{name}: {why}" for name, why in unavailable.items())
    report = folder / "report.md"
    report.write_text("\n".join(lines).rstrip() + "\n")
    return report


def _rows(
    wanted: str | Sequence[str], mine: Sequence[Group], every: Sequence[Group]
) -> list[list[Chart]]:
    """Return one chart, or for a list of charts a row each, with a column for each variant."""
    if isinstance(wanted, str):
        made = chart(wanted, mine)
        return [[made]] if made else []
    columns: dict[str, list[Group]] = {}
    for group in every:
        if group.scenario == mine[0].scenario:
            columns.setdefault(group.variant, []).append(group)
    if mine[0].variant != next(iter(columns)):
        return []  # drawn with the first
    found = ([(name, chart(kind, own)) for name, own in columns.items()] for kind in wanted)
    return [
        [replace(made, title=f"{made.title} ({name})") for name, made in row if made]
        for row in found
        if all(made for _, made in row)
    ]


def _charts(of: str, facts: Mapping[str, Any]) -> Sequence[str | Sequence[str]]:
    """Return what our own scenario asks for today, and what another one asked for in its run."""
    if of in scenario.names():
        return scenario.load(of).charts
    found: Sequence[str | Sequence[str]] = facts.get("charts", ())
    return found


def _card(results: Sequence[Result]) -> Iterator[tuple[str, str]]:
    result = results[-1]
    machine = result["machine"]
    yield "Machine", f"{machine['architecture']}, {machine['memory_gb']} GB, {machine['system']}"
    equal = ", ".join(f"{key}={value}" for key, value in result["equal"].items())
    yield "The same for all", f"{equal}, where a scenario's own environment says nothing else"
    yield "Stores", "PostgreSQL with fsync, Redis without persistence, both on this machine"
    yield "Python", machine["python"]
    yield "Packages", ", ".join(f"{key} {value}" for key, value in machine["packages"].items())
    yield "Programs", "; ".join(machine["programs"].values())
    for part in results:
        if part["runs"]:
            yield f"Run {part['began']}", _part(part)


def _part(result: Result) -> str:
    """Return what one part ran, and what may differ from the other parts."""
    scenarios = ", ".join(dict.fromkeys(run["scenario"] for run in result["runs"]))
    machine, ceiling = result["machine"], result["ceiling"]
    return (
        f"{scenarios}: {'quick' if result['quick'] else 'full'} form, {result['sizing']}, "
        f"{result['repeats']} of each in random order (seed {result['seed']}), "
        f"commit {machine.get('commit') or 'not known'}, {machine['cores']} cores of "
        f"{machine['processor']}, load before {machine['load_before']}; at a server that does "
        f"nothing the generator sends {number(ceiling['requests_per_second'])} per s, and at "
        f"{ceiling['paced_rate']} per s {percent(ceiling['paced_late_share'])} late"
    )


def _list(items: Iterable[str]) -> Iterator[str]:
    said = [f"- {cell(item)}" for item in items]
    yield from [*said, ""] if said else []
