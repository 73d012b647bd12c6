"""What a reader must know before believing a figure."""

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loadtests.aggregate import Group, in_phases, mean, plain

# The share of the machine's cores above which it does no more in a second, whatever is asked.
FULL = 0.9
# Cores that others may use before figures count as disturbed: a tenth of the smallest machine.
QUIET = 0.2


def cautions(results: Sequence[Mapping[str, Any]], groups: Sequence[Group]) -> list[str]:
    """Return what a reader must know before believing a figure."""
    said = [
        f"WRONG: {group.strategy} bought {doubled} labels of {group.scenario} twice."
        for group in groups
        if (doubled := sum(run["books"]["doubled"] for run in group.runs if "books" in run))
    ]
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
        if (others := mean(run, plain("others"))) is not None and others > QUIET
    ]
    if disturbed:
        said.append(
            f"The machine was not ours alone: in {len(disturbed)} runs other processes used up to "
            f"{max(disturbed):.1f} cores on average. Such figures are lower bounds."
        )
    said += _full_machines(results)
    commits = dict.fromkeys(result["machine"]["commit"] for result in results)
    if len(commits) > 1:
        said.append(f"Not of one commit: {', '.join(commits)}. Compare within one.")
    bad = sum(run["status"] == "invalid" for group in groups for run in group.runs)
    if bad:
        said.append(
            f"{bad} runs are invalid, by no fault of the server; their figures are shown only "
            "where no valid run is there, and the notes say so."
        )
    return said


def _full_machines(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say in which runs the processors were the limit, not what was to be compared."""
    full = Counter(
        f"{run['scenario']} with {run['strategy']}"
        for result in results
        for run in result["runs"]
        if (rows := in_phases(run))
        and statistics.median(sum(row["cpu"].values()) + row["others"] for row in rows)
        > FULL * result["machine"]["cores"]
    )
    if full:
        which = ", ".join(f"{count} of {run}" for run, count in full.items())
        yield (
            f"Runs in which the machine's processors were full most of the time: {which}. Their "
            "times include the wait for a processor."
        )
