"""The table on the terminal, and docs/faults/report.{md,json}."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadtests.faults.fault import Fault, Result
from loadtests.faults.invariants import INVARIANTS
from loadtests.machine import card

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "faults"
# It changes while the suite runs.
BUT_THE_REPORT = ("--", ".", ":!docs/faults")
NAMES = [f"I{number}" for number in range(1, len(INVARIANTS) + 1)]
COLUMNS = [
    "fault", "run", "database", "dose", "tried", "lost", "doubled", "ever", "late", *NAMES,
    "targets", "",
]  # fmt: skip
INTRODUCTION = """# The fault suite's report

Written by `python -m loadtests.faults --report`. Each fault is struck at a deployment of real
processes under load; then three journals (what clients were told, the database, the carriers'
ledger) are held against seven invariants:

I1 each acknowledged id has a row · I2 at most one live purchase of what a client wanted one of ·
I3 each row ends, or is parked and visible · I4 each label in a row is in the ledger under that
reference · I5 no purchase without a row · I6 one answer per request, consistent with what is
stored · I7 no byte of one account reaches another.

A cell says how many things broke the invariant, of how many looked at. A *control* is the same
fault with its guard taken away: it must be red, or the suite sees nothing. What was not run is
*missing*, never 0.
"""


def facts() -> dict[str, Any]:
    """Return what a figure means nothing without: commit, machine, versions, moment."""
    return {
        "commit": _git("rev-parse", "--short", "HEAD"),
        "changed_files": len(_git("status", "--porcelain", "-uno", *BUT_THE_REPORT).splitlines()),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": card(),
    }


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def row(result: Result) -> list[str]:
    """Return a run's line of the table."""
    by_name = {finding.invariant: finding for finding in result.findings}
    cells = [f"{by_name[name].violations}/{by_name[name].checked}" for name in NAMES]
    missed = sum(not measure.met for measure in result.measures)
    verdict = "green" if result.green else "RED"
    counts = [result.tried, result.lost, result.doubled, result.sold_twice, result.late]
    return [
        result.fault,
        f"control ({result.control} off)" if result.control else "guarded",
        result.database,
        result.dose,
        *map(str, counts),
        *cells,
        f"{missed}/{len(result.measures)}",
        f"{verdict}, as it must be" if result.control and result.caught else verdict,
    ]


def table(results: Sequence[Result]) -> str:
    """Return the runs as aligned text."""
    lines = [COLUMNS, *map(row, results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def targets(result: Result) -> list[str]:
    """Return a run's own targets, a line each."""
    return [
        f"  {'met' if measure.met else 'MISSED'}: {measure.name} {measure.value}"
        f" (wanted: {measure.wanted})"
        for measure in result.measures
    ]


def passed(results: Sequence[Result]) -> bool:
    """Tell whether every guarded run is green, and every control red for its own reason."""
    return all(result.as_it_must_be for result in results)


def write(
    results: Sequence[Result],
    faults: Mapping[str, type[Fault]],
    folder: Path = FOLDER,
    *,
    made: Mapping[str, Any] | None = None,
) -> None:
    """Add these runs to the report; entries of faults that were not run now stay as they are.

    `made` is what `facts` said before the runs; without it, what it says now.
    """
    made = made or facts()
    path = folder / "report.json"
    entries: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for result in results:
        entry = entries.setdefault(result.fault, {"runs": []})
        # A guarded run leaves the control's entry as it was, with the commit that it was made on.
        kept = [run for run in entry["runs"] if not _is_replaced(run, result)]
        runs = sorted([*kept, result.as_json() | dict(made)], key=_kind)
        entries[result.fault] = {"title": faults[result.fault].title, "runs": runs}
    for id_, fault in faults.items():
        entries.setdefault(
            id_, {"title": fault.title, "missing": "not run on this commit or before", "runs": []}
        )
    ordered = dict(sorted(entries.items(), key=lambda item: int(item[0][1:])))
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(ordered, indent=1) + "\n")
    (folder / "report.md").write_text(_markdown(ordered))


def _is_replaced(run: Mapping[str, Any], result: Result) -> bool:
    """Tell whether the result says all that an earlier run did: a full dose has the short one."""
    *what, dose = _kind(run)
    *same, new_dose = _kind(result.as_json())
    return what == same and new_dose in (dose, "full")


def _kind(run: Mapping[str, Any]) -> tuple[bool, str, str]:
    return run["control"], run["database"], run["dose"]


def _markdown(entries: Mapping[str, Any]) -> str:
    head = [
        "fault",
        "run",
        "database",
        "dose",
        "tried",
        "lost",
        "doubled",
        "late",
        *NAMES,
        "result",
    ]
    lines = [INTRODUCTION, "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for id_, entry in entries.items():
        lines += [_line(id_, entry["title"], run) for run in entry["runs"]]
        if not entry["runs"]:
            blank = " | " * (len(head) - 2)
            lines.append(f"| {id_} {entry['title']} {blank}| *missing*: {entry['missing']} |")
    lines += ["", "## Targets, times, seeds and where it ran", ""]
    for id_, entry in entries.items():
        lines += _details(id_, entry)
    return "\n".join(lines) + "\n"


def _line(id_: str, title: str, run: Mapping[str, Any]) -> str:
    by_name = {finding["invariant"]: finding for finding in run["findings"]}
    cells = [f"{by_name[name]['violations']}/{by_name[name]['checked']}" for name in NAMES]
    kind = f"control: {run['control']} off" if run["control"] else "guarded"
    verdict = "green" if run["green"] else "**red**"
    counts = [run["tried"], run["lost"], run["doubled"], run["late"]]
    words = [f"{id_} {title}", kind, run["database"], f"{run['dose']} ({run['requests']})"]
    return "| " + " | ".join([*words, *map(str, counts), *cells, verdict]) + " |"


def _details(id_: str, entry: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for run in entry["runs"]:
        kind = "control" if run["control"] else "guarded"
        lines.append(
            f"- **{id_}**, {kind}, {run['database']}, {run['dose']}: {run['at']}, commit"
            f" {run['commit']}, seed {run['seed']}, {run['seconds']} s, {run['parked']} parked,"
            f" load before {run['machine']['load_before']};"
            f" {len(run['schedule'])} steps in the schedule (report.json)"
        )
        lines += [
            f"  - {measure['name']}: {measure['value']} (wanted: {measure['wanted']})"
            for measure in run["measures"]
        ]
    return [*lines, *_machines(entry)]


def _machines(entry: Mapping[str, Any]) -> list[str]:
    """Say on what machine and versions the entry's latest run was made."""
    if not entry["runs"]:
        return []
    machine = max(entry["runs"], key=lambda run: str(run["at"]))["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["packages"].items())
    where = f"{machine['cores']} cores of {machine['processor']}, {machine['system']}"
    return [f"  - {where}, Python {machine['python']}, {versions}"]
