"""The report's first sentences. Only what was measured, and how sure that is."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loadtests.aggregate import Group, Run, mean, stream_of, streams
from loadtests.tables import number, percent

# Figures and the strategy that they are of.
_Placed = tuple[Mapping[str, Any], Group]

# Differences that are noise.
ALIKE = 0.02
# The share of the machine's cores above which it does no more in a second, whatever is asked.
FULL = 0.9
# Cores that others may use before figures count as disturbed: a tenth of the smallest machine.
QUIET = 0.2


def verdict(title: str, groups: Sequence[Group]) -> str:
    """Return one sentence on a scenario: its best and its worst strategy.

    By the first stream in which they differ: where all are alike there is nothing to choose.
    """
    streams_ = _ranked(believable(groups))
    if not streams_:
        return f"{title}: nothing was measured."
    first, *_ = streams_
    telling = next((name for name, ranked in streams_.items() if _differ(ranked)), first)
    best, worst = streams_[telling][0], streams_[telling][-1]
    where = "" if telling == first else f" ({', '.join(telling)})"
    sentence = f"{title}{where}: {_says(*best)}"
    if worst[1] is not best[1]:
        sentence += f"; {_says(*worst)}"
    return sentence + "."


def _ranked(groups: Sequence[Group]) -> dict[tuple[str, str], list[_Placed]]:
    """Return the figures under all strategies by phase and stream, the best first."""
    found: dict[tuple[str, str], list[_Placed]] = {}
    for group in groups:
        for phase, name, figures in streams(group.typical() or {}):
            found.setdefault((phase, name), []).append((figures, group))
    for ranked in found.values():
        ranked.sort(key=lambda one: (-one[0]["summary"]["goodput"], _failed(one)))
    return found


def _differ(ranked: Sequence[_Placed]) -> bool:
    best, worst = ranked[0], ranked[-1]
    slower = worst[0]["summary"]["goodput"] < (1 - ALIKE) * best[0]["summary"]["goodput"]
    return slower or abs(_failed(worst) - _failed(best)) > ALIKE


def _failed(one: _Placed) -> float:
    share: float = one[0]["summary"]["error_share"]
    return share


def believable(groups: Sequence[Group]) -> Sequence[Group]:
    """Return the groups with a valid run, where two can be compared; else all."""
    valid = [group for group in groups if group.valid]
    return valid if len(valid) > 1 else groups


def _says(figures: Mapping[str, Any], group: Group) -> str:
    summary = figures["summary"]
    possible = f" of {number(figures['limit'])} possible" if "limit" in figures else ""
    return (
        f"{group.strategy}{_doubt(group)} gave {number(summary['goodput'])}{possible} good answers "
        f"a second with {percent(summary['error_share'])} failed"
    )


def _doubt(group: Group) -> str:
    return "" if group.valid else " (no valid run)"


def outage_sentence(groups: Sequence[Group]) -> str:
    """Return what requests that need no carrier saw, where there is a stream named canary."""
    seen = []
    for group in believable(groups):
        run = group.typical()
        figures = _canary(run) if run else None
        if figures and figures["summary"]["latency"]:
            summary = figures["summary"]
            seen.append(
                (
                    summary["error_share"],
                    summary["latency"]["p99"],
                    f"{group.strategy}{_doubt(group)}",
                )
            )
    if len(seen) < 2:
        return ""
    (_, low, best), (lost, high, worst) = min(seen), max(seen)
    return (
        f"Requests that need no carrier took {number(low)} s (99th percentile) under {best}, and "
        f"{number(high)} s with {percent(lost)} failed under {worst}."
    )


def _canary(run: Run) -> Mapping[str, Any] | None:
    phase = next((phase["name"] for phase in run.get("phases", ())), "")
    return stream_of(run, phase, "canary")


def cautions(results: Sequence[Mapping[str, Any]], groups: Sequence[Group]) -> list[str]:
    """Return what a reader must know before believing a figure."""
    said = [*_bought_twice(groups)]
    said += dict.fromkeys(result["note"] for result in results if result["note"])
    if any(len(group.measured()) == 1 for group in groups):
        said.append(
            "n = 1: a figure without a range is one run, or the same in all. Differences of a few "
            "percent are noise."
        )
    disturbed = [
        others
        for group in groups
        for run in group.measured()
        if (others := mean(run, lambda row: row.get("others"))) is not None and others > QUIET
    ]
    if disturbed:
        said.append(
            f"The machine was not ours alone: in {len(disturbed)} runs other processes used up to "
            f"{max(disturbed):.1f} cores on average. Such figures are lower bounds."
        )
    said += _full_machines(results)
    bad = sum(run["status"] == "invalid" for group in groups for run in group.runs)
    if bad:
        said.append(
            f"{bad} runs are invalid (the generator was late or the simulator slow); their "
            "figures are shown only where no valid run is there, and the notes say so."
        )
    return said


def _bought_twice(groups: Sequence[Group]) -> Iterator[str]:
    """Say what no figure makes good."""
    for group in groups:
        if doubled := sum(run["books"]["doubled"] for run in group.runs if "books" in run):
            yield f"WRONG: {group.strategy} bought {doubled} labels of {group.scenario} twice."


def _full_machines(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say in which scenarios the processors were the limit, not what was to be compared."""
    full = Counter(
        run["scenario"]
        for result in results
        for run in result["runs"]
        if (cores := _usual_cores(run)) and cores > FULL * result["machine"]["cores"]
    )
    if full:
        which = ", ".join(f"{count} of {scenario}" for scenario, count in full.items())
        yield (
            f"Runs in which the machine's processors were full most of the time: {which}. They "
            "show what a request costs in work, not what waiting costs."
        )


def _usual_cores(run: Run) -> float | None:
    """Return how many cores all processes used in the median second."""
    used = [sum(row["cpu"].values()) + row["others"] for row in run.get("timeline", ())]
    return statistics.median(used) if used else None
