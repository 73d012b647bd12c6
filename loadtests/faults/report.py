"""The table on the terminal, and docs/faults: results.json, and report.md rendered from it.

Several processes may add their results to the file. The report shows those of one commit; what was
not run on it is missing, never 0.
"""

import fcntl
import json
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadtests.faults.fault import Fault, Measure, Result, Run, engines, planned
from loadtests.faults.invariants import INVARIANTS
from loadtests.machine import card
from loadtests.tables import Table, markdown

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "faults"
# It changes while the suite runs.
BUT_THE_REPORT = ("--", ".", ":!docs/faults")
COLUMNS = [
    "fault", "run", "database", "dose", "tried", "lost", "doubled", "ever", "late", "review",
    "broken", "missed", "",
]  # fmt: skip
INTRODUCTION = """# The fault suite's report

Each fault is struck at a deployment of real processes under load. Then the journals (what clients
and webhooks were told, the database, the carriers' ledger) are held against invariants:

{invariants}

*Lost*: what broke I1, I3 or I12. *Doubled*: wishes with more than one live purchase; *ever*:
references that were sold more than once, voided or not. *Late*: clients without an answer a second
after their wait. *Under review*: rows that are left to a person. A full dose runs at the shipped
times; a short dose and a control shrink all of them by one factor (*scale*).
"""
HEAD = ["fault", "dose (requests)", "database", "scale", "lost", "doubled", "ever", "late",
        "under review", "broken", "targets missed", "seed", "seconds", "result"]  # fmt: skip


def facts() -> dict[str, Any]:
    """Return what a figure means nothing without: commit, machine, versions, moment, command."""
    machine = card()
    del machine["commit"]  # of the report, too, which the suite rewrites as it runs
    return {
        "commit": _git("rev-parse", "--short", "HEAD"),
        "changed_files": len(_git("status", "--porcelain", "-uno", *BUT_THE_REPORT).splitlines()),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", "loadtests.faults", *sys.argv[1:]]),
        "machine": machine,
    }


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def row(result: Result) -> list[str]:
    """Return a run's line of the table."""
    verdict = "green" if result.green else "RED"
    counts = [
        result.tried, result.lost, result.doubled, result.sold_twice, result.late, result.review,
    ]  # fmt: skip
    return [
        result.fault,
        f"without {result.control}" if result.control else "guarded",
        engines(result.database, result.broker),
        result.dose,
        *map(str, counts),
        ", ".join(_broken(result.as_json())) or "-",
        f"{sum(not measure.met for measure in result.measures)}/{len(result.measures)}",
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
    """Return a run's own targets and what broke its invariants, a line each."""
    return [*map(_target, result.measures), *_examples(result)]


def _target(measure: Measure) -> str:
    met = "met" if measure.met else "MISSED"
    return f"  {met}: {measure.name} {measure.value} (wanted: {measure.wanted})"


def _examples(result: Result) -> Iterator[str]:
    for finding in result.findings:
        if not finding.holds:
            yield f"  BROKEN: {finding.invariant}, e.g. {'; '.join(finding.examples[:2])}"


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
    """Add these results and render the report of their commit.

    `made` is what `facts` said before the runs; without it, what it says now.
    """
    made = made or facts()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "results.json").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # other processes of the suite add theirs
        file.seek(0)
        runs: list[dict[str, Any]] = json.loads(file.read() or "[]")
        for result in results:
            new = result.as_json() | dict(made)
            runs = [run for run in runs if _key(run) != _key(new)] + [new]
        runs.sort(key=lambda run: (int(run["fault"][1:]), *map(str, _key(run))))
        # One run a line: a diff shows which were made anew. Both before the file is emptied: what
        # can't be written must not take the others' hours with it.
        text = "[\n" + ",\n".join(map(json.dumps, runs)) + "\n]\n"
        report = render(runs, faults, str(made["commit"]))
        file.truncate(0)
        file.write(text)
        (folder / "report.md").write_text(report)


def _key(run: Mapping[str, Any]) -> Run:
    return Run(run["fault"], run["dose"], run["database"], run["control"], run.get("broker", ""))


def render(
    runs: Iterable[Mapping[str, Any]], faults: Mapping[str, type[Fault]], commit: str
) -> str:
    """Return the report of one commit's results; other commits' are said to be missing."""
    every = {_key(run): run for run in runs}
    ours = {key: run for key, run in every.items() if run["commit"] == commit}
    wanted = [run for kind in faults.values() for run in planned(kind, "full")]
    guarded = [run for key, run in ours.items() if not key.control]
    controls = [run for key, run in ours.items() if key.control]
    lines = [
        INTRODUCTION.format(invariants="\n".join(_invariants(ours.values()))),
        *_where(list(ours.values()), commit),
        "## Guarded runs",
        "",
        *_table(HEAD, [_guarded(run) for run in guarded]),
        "## Controls: the same fault without one of its guards",
        "",
        "Each must be red for its own reason, or the suite sees nothing.",
        "",
        *_table(
            ["fault", "without", "must break", "broken", "targets missed", "seed", "result"],
            [_control(run) for run in controls],
        ),
        *_uncontrolled(faults),
        "## Targets",
        "",
        *_table(["fault", "target", "measured", "wanted", ""], _targets(guarded)),
        *_missing([key for key in wanted if key not in ours], every),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _invariants(runs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Tell what was checked: runs of an older commit may know fewer."""
    checked = {finding["invariant"] for run in runs for finding in run["findings"]}
    told = [str(invariant.__doc__).splitlines()[0] for invariant in INVARIANTS]
    return [f"- {line}" for line in told if line.partition(":")[0] in checked]


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    cells = tuple(tuple(map(str, row)) for row in rows)
    return [*markdown(Table("", tuple(head), cells), "---|"), ""]


def _where(runs: Sequence[Mapping[str, Any]], commit: str) -> list[str]:
    """Say what was measured, where and how."""
    if not runs:
        return []
    latest = max(runs, key=lambda run: str(run["at"]))
    machine = latest["machine"]
    versions = {**machine["packages"], **machine["programs"]}
    changed = dict.fromkeys(run["fault"] for run in runs if run["changed_files"])
    return [
        f"- Commit {commit}" + (f", but {', '.join(changed)} of changed files" if changed else ""),
        f"- {min(run['at'] for run in runs)} to {latest['at']}",
        f"- {machine['cores']} cores of {machine['processor']}, {machine['memory_gb']} GB,"
        f" {machine['system']}, Python {machine['python']}",
        f"- {', '.join(f'{name} {number}' for name, number in versions.items())}",
        *(f"- `{command}`" for command in sorted({run["command"] for run in runs})),
        "",
    ]


def _broken(run: Mapping[str, Any]) -> list[str]:
    return [
        f"{finding['invariant']} {finding['violations']}/{finding['checked']}"
        for finding in run["findings"]
        if finding["violations"]
    ]


def _missed(run: Mapping[str, Any]) -> str:
    return ", ".join(each["name"] for each in run["measures"] if not each["met"]) or "-"


def _engines(run: Mapping[str, Any]) -> str:
    return engines(run["database"], run.get("broker", ""))


def _name(run: Mapping[str, Any]) -> str:
    return f"{run['fault']} {run['title']}"


def _guarded(run: Mapping[str, Any]) -> list[object]:
    counts = [run[name] for name in ("lost", "doubled", "sold_twice", "late", "review")]
    return [
        _name(run),
        f"{run['dose']} ({run['tried']})",
        _engines(run),
        run["scale"],
        *counts,
        ", ".join(_broken(run)) or "-",
        _missed(run),
        run["seed"],
        run["seconds"],
        "green" if run["green"] else "**red**",
    ]


def _control(run: Mapping[str, Any]) -> list[object]:
    verdict = "red, as it must be" if run["caught"] else "**not red for its reason**"
    broken = ", ".join(_broken(run)) or "-"
    return [
        _name(run), run["control"], run["reddens"], broken, _missed(run), run["seed"], verdict,
    ]  # fmt: skip


def _uncontrolled(faults: Mapping[str, type[Fault]]) -> list[str]:
    lines = [
        f"- {kind.id} {kind.title}: no control, {kind.uncontrolled}"
        for kind in faults.values()
        if kind.uncontrolled
    ]
    return [*lines, ""] if lines else []


def _targets(runs: Iterable[Mapping[str, Any]]) -> list[list[object]]:
    return [
        [
            f"{run['fault']}, {run['dose']}, {_engines(run)}",
            *(measure[name] for name in ("name", "value", "wanted")),
            "" if measure["met"] else "**missed**",
        ]
        for run in runs
        for measure in run["measures"]
    ]


def _missing(keys: Sequence[Run], every: Mapping[Run, Mapping[str, Any]]) -> list[str]:
    """Name the runs of a whole suite that this commit lacks."""
    if not keys:
        return []
    lines = ["## Missing", ""]
    for key in keys:
        other = f": last run on commit {every[key]['commit']}" if key in every else ""
        lines.append(f"- {key}{other}")
    return [*lines, ""]
