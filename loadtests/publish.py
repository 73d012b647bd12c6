"""Write what README and pages say of the committed results: `python -m loadtests publish`.

Each generated part stands between two comments, `<!-- result -->` and `<!-- /result -->`. A test
is red when a page and the raw data differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from deploy import strategy as strategies
from deploy.plan import ROOT
from loadtests.aggregate import GOOD, Group
from loadtests.decision import (
    DOUBT,
    NOT_MEASURED,
    TABLED,
    Evidence,
    decision_table,
    footnotes,
    is_fitted,
    result_table,
    short_answers,
)
from loadtests.published import BENCHMARKS, Published, Result, benches
from loadtests.tables import Table
from loadtests.verdict import cautions

# The pages with generated parts, from the project's root.
PAGES = ("README.md", "docs/which-one.md", "docs/benchmarks/README.md")
PART = re.compile(r"(<!-- (?P<name>[a-z-]+) -->\n).*?(<!-- /(?P=name) -->)", re.DOTALL)

# A part's text; `up` leads from the page to the project's root.
Writer = Callable[[list[Published], str], Iterator[str]]


def publish(root: Path = ROOT, folder: Path = BENCHMARKS) -> list[str]:
    """Write all parts of all pages; return the pages that changed."""
    found = benches(folder)
    changed = []
    for page in PAGES:
        before = (root / page).read_text()
        after = written(before, page, found)
        if after != before:
            (root / page).write_text(after)
            changed.append(page)
    return changed


def written(text: str, page: str, found: list[Published]) -> str:
    """Return a page's text with its parts as the data have them now."""
    up = "../" * page.count("/")

    def part(match: re.Match[str]) -> str:
        writer = PARTS.get(match["name"])
        if writer is None:  # another command's
            return match.group()
        # Blank lines: a list or table right after a comment is none to MkDocs.
        return match.group(1) + "\n".join(["", *writer(found, up), "", ""]) + match.group(3)

    return PART.sub(part, text)


def _result(found: list[Published], up: str) -> Iterator[str]:
    if not found:
        yield "Nothing has been measured yet: `make bench`."
        return
    newest = found[-1]
    evidence = Evidence.of(newest.groups())
    yield _what(newest, up)
    yield ""
    table = result_table(evidence)
    measured = [row for row in table.rows if set(row[1:]) != {NOT_MEASURED}]
    yield from _rows(replace(table, rows=tuple(measured)), up)
    yield ""
    if absent := [row[0] for row in table.rows if row not in measured]:
        yield f"- Not measured: {', '.join(absent)}."
    yield from _below(newest, evidence)


def _decision(found: list[Published], up: str) -> Iterator[str]:
    evidence = Evidence.of(found[-1].groups() if found else [])
    yield from (f"- {answer}" for answer in short_answers(evidence))
    yield ""
    yield from _rows(decision_table(evidence), up)
    if found:
        yield ""
        yield f"Valid runs: {'; '.join(_sure(found[-1]))}."


def _sure(bench: Published) -> Iterator[str]:
    """Return in which form each scenario of the table ran, and how often with a valid run."""
    parts = bench.parts()
    equal = Evidence.of(bench.groups()).equal
    for scenario in TABLED:
        counts = [
            sum(run["status"] in GOOD for run in group.runs)
            for (name, _), group in equal.items()
            if name == scenario and group.valid
        ]
        if counts:
            form = "quick" if _part_of(scenario, parts)["quick"] else "full"
            least, most = min(counts), max(counts)
            often = f"{least} to {most}" if most > least else f"{most}"
            yield f"`{scenario}` in {form} form, {often} for each of {len(counts)} strategies"


def _part_of(scenario: str, parts: Sequence[Result]) -> Result:
    """Return a part that ran a scenario at equal workers: comparable ones have one form."""
    return next(
        part
        for part in parts
        if not is_fitted(part["sizing"])
        and any(run["scenario"] == scenario for run in part["runs"])
    )


def _benches(found: list[Published], up: str) -> Iterator[str]:
    yield "| When | What | How sure |"
    yield "|---|---|---|"
    for bench in reversed(found):
        name = bench.folder.name
        groups = bench.groups()
        scenarios = dict.fromkeys(group.scenario for group in groups)
        what = "; ".join(f"`{scenario}`: {_strategies(scenario, groups)}" for scenario in scenarios)
        counts: dict[str, int] = {}
        for run in (run for group in groups for run in group.runs):
            counts[run["status"]] = counts.get(run["status"], 0) + 1
        sure = ", ".join(f"{count} {status}" for status, count in counts.items())
        yield (
            f"| [{name}]({name}/report.md) ([interactive]({name}/interactive.html)) "
            f"| {what} | runs: {sure} |"
        )


def _strategies(scenario: str, groups: Sequence[Group]) -> str:
    names = {group.strategy for group in groups if group.scenario == scenario}
    return f"{len(names)} strategies" if len(names) > 1 else f"{names.pop()} alone"


def _what(bench: Published, up: str) -> str:
    """Return what was asked of all, and of which machine and commit the figures are."""
    machine = bench.results[-1]["machine"]
    commits = dict.fromkeys(part["machine"].get("commit") or "unknown" for part in bench.results)
    raw = (
        f"[report and raw data]({up}{bench.report}), commit {', '.join(commits)}, "
        f"{machine['cores']} cores"
    )
    if "talk" not in {group.scenario for group in Evidence.of(bench.groups()).equal.values()}:
        return f"{bench.began}: {raw}. `talk` is not in it."
    result = _part_of("talk", bench.parts())
    asked = result["scenarios"]["talk"]["parameters"]
    limit = asked["connections"] / asked["carrier_seconds"]
    return (
        f"{asked['connections']} clients ask for {asked['requests']:,} labels at a carrier that "
        f"takes {asked['carrier_seconds']} s: the limit is {limit:g} a second. Size: "
        f"{result['sizing']}. Median (lowest to highest) of its valid runs, {bench.began}; {raw}."
    )


def _below(bench: Published, evidence: Evidence) -> Iterator[str]:
    notes = cautions(bench.results, bench.groups())
    whys = footnotes(evidence)
    yield from (f"- {note}" for note in notes)
    if whys:
        yield f"-{DOUBT}: no valid run. {'. '.join(whys)}."


def _rows(table: Table, up: str) -> Iterator[str]:
    yield f"| {' | '.join(table.head)} |"
    yield f"|---|{'---|' * (len(table.head) - 1)}"
    known = strategies.names()
    for name, *cells in table.rows:
        link = f"[{name}]({up}deploy/strategies/{name})" if name in known else name
        yield f"| {' | '.join([link, *map(_cell, cells)])} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


PARTS: Mapping[str, Writer] = {
    "result": _result,
    "decision": _decision,
    "benches": _benches,
}
