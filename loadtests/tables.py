"""The report's tables, as plain values: HTML and Markdown are made of the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadtests.aggregate import (
    Group,
    Run,
    Spread,
    busy,
    mean,
    peak,
    serving_cores,
    stream_of,
    streams,
)
from loadtests.metrics import LEAST_LIMIT, RECOVERED_SHARE, RECOVERY_WINDOW, SLOWER

MISSING = "-"
# A 202 is a promise kept later: not what was asked for, and not lost.
PROMISED = "http 202"
RECOVERED = (
    "Recovered: how long after the carrier came back all was as before, and stayed so: in each "
    f"{RECOVERY_WINDOW:.0f} s {RECOVERED_SHARE:.0%} of the share that was good before the outage "
    f"is answered well, within {SLOWER:.0f} times the 95th percentile of before or "
    f"{LEAST_LIMIT:.0f} s. 0: from the first {RECOVERY_WINDOW:.0f} s on, or never disturbed. "
    "Not in the run: not until the last request was sent."
)


@dataclass(frozen=True, slots=True)
class Table:
    """`rows` are strings; the first column is the strategy. `best` is said below it."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    hint: str = ""


Figure = Callable[[Run], float | None]


def number(value: float) -> str:
    """Return three digits that matter, plain."""
    if value == math.inf:
        return "not in the run"
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.2f}" if size >= 0.1 else f"{value:.3f}"


def percent(value: float) -> str:
    """Return a share; a few among thousands are not rounded to none."""
    if 0 < value < 0.001:
        return "<0.1 %"
    return f"{value * 100:.1f} %" if value else "0 %"


def spread(value: Spread | None, form: Callable[[float], str] = number) -> str:
    """Return the median and, of several repeats, their range."""
    if value is None:
        return MISSING
    if value.repeats == 1 or value.low == value.high:
        return form(value.median)
    return f"{form(value.median)} ({form(value.low)} to {form(value.high)})"


def stream_tables(groups: Sequence[Group]) -> list[Table]:
    """Return a table for each stream of one scenario and variant."""
    found = dict.fromkeys(
        (phase, stream)
        for group in groups
        for run in group.measured()
        for phase, stream, _ in streams(run)
    )
    return [_stream_table(groups, phase, stream) for phase, stream in found]


def _stream_table(groups: Sequence[Group], phase: str, stream: str) -> Table:
    columns = _columns(groups, phase, stream)
    rows = [
        (group.strategy, *(spread(group.spread(figure), form) for _, figure, form in columns))
        for group in groups
    ]
    title = stream if phase == stream else f"{phase}: {stream}"
    recovers = _has(groups, phase, stream, "recovery")
    return Table(
        title,
        ("strategy", *(name for name, _, _ in columns)),
        tuple(rows),
        "Seconds from the intended start, of the good answers. " + (RECOVERED if recovers else ""),
    )


def _columns(
    groups: Sequence[Group], phase: str, stream: str
) -> list[tuple[str, Figure, Callable[[float], str]]]:
    def of(path: Callable[[Mapping[str, Any]], float | None]) -> Figure:
        def figure(run: Run) -> float | None:
            found = stream_of(run, phase, stream)
            return path(found) if found else None

        return figure

    def latency(name: str) -> Figure:
        return of(lambda found: (found["summary"]["latency"] or {}).get(name))

    columns: list[tuple[str, Figure, Callable[[float], str]]] = [
        ("good per s", of(lambda found: found["summary"]["goodput"]), number),
        ("asked", of(lambda found: found["summary"]["asked"]), number),
        ("failed", of(lambda found: found["summary"]["error_share"]), percent),
    ]
    if _cut_short(groups, phase, stream):
        columns.insert(1, ("planned", of(lambda found: found["planned"]), number))
    if _has(groups, phase, stream, "limit"):
        share = of(lambda found: found["summary"]["goodput"] / found["limit"])
        columns.insert(1, ("of possible", share, percent))
    if _has(groups, phase, stream, "all_open"):
        open_ = of(_share_of_limit)
        columns.insert(2, ("of possible, all open", open_, percent))
    names = {"minimum": "min", "maximum": "max"}
    for name in ("minimum", "mean", "p50", "p90", "p95", "p99", "maximum"):
        columns.append((names.get(name, name), latency(name), number))
    if _has(groups, phase, stream, "beyond_carrier"):
        for name in ("p50", "p99"):
            columns.append((f"{name} beyond the carrier", of(_beyond(name)), number))
    if _has(groups, phase, stream, "recovery"):
        columns.append(("recovered after s", of(_recovery), number))
    return columns


def _share_of_limit(figures: Mapping[str, Any]) -> float | None:
    return figures["all_open"] / figures["limit"] if "all_open" in figures else None


def _beyond(name: str) -> Callable[[Mapping[str, Any]], float | None]:
    return lambda figures: figures.get("beyond_carrier", {}).get(name)


def _recovery(figures: Mapping[str, Any]) -> float | None:
    """Return the seconds; endless where it did not recover: the worst, not missing."""
    if "recovery" not in figures:
        return None
    seconds: float | None = figures["recovery"]
    return math.inf if seconds is None else seconds


def _cut_short(groups: Sequence[Group], phase: str, stream: str) -> bool:
    """Say whether some strategy could not even be asked all that was planned."""
    found = (stream_of(run, phase, stream) for group in groups for run in group.measured())
    return any(figures["summary"]["asked"] < figures["planned"] for figures in found if figures)


def _has(groups: Sequence[Group], phase: str, stream: str, key: str) -> bool:
    found = (stream_of(run, phase, stream) for group in groups for run in group.measured())
    return any(key in figures for figures in found if figures is not None)


def server_table(groups: Sequence[Group]) -> Table:
    """Return what the servers used, by strategy."""
    columns: list[tuple[str, Figure]] = [
        ("web processes", _workers),
        ("serving MB, peak", lambda run: peak(run, "serving_memory")),
        ("serving cores, mean", lambda run: mean(run, serving_cores)),
        ("database connections, peak", lambda run: peak(run, "connections")),
        ("holds, peak", lambda run: peak(run, "held")),
        ("busy workers, peak", _busy_peak),
        ("others' cores, mean", lambda run: mean(run, lambda row: row.get("others"))),
        ("load, mean", lambda run: mean(run, lambda row: row.get("load"))),
    ]
    rows = [
        (group.strategy, *(spread(group.spread(figure)) for _, figure in columns))
        for group in groups
    ]
    return Table(
        "What it took",
        ("strategy", *(name for name, _ in columns)),
        tuple(rows),
        "Serving: web, front and hub together (proportional set size). Others' cores: what the "
        "machine did besides; the less, the better the figures.",
    )


def _workers(run: Run) -> float | None:
    workers = run.get("sizes", {}).get("WEB_WORKERS")
    return float(workers) if workers else None


def _busy_peak(run: Run) -> float | None:
    return max(filter(None, map(busy, run.get("timeline", ()))), default=None)


def books_table(groups: Sequence[Group]) -> Table | None:
    """Return what was asked and what the carriers' ledger says; None where nothing was bought."""
    names = ("asked", "answered_well", "booked", "announced", "open", "failed", "doubled")
    if not any(run["books"]["asked"] for group in groups for run in group.measured()):
        return None
    rows = [
        (
            group.strategy,
            *(spread(group.spread(_book(name))) for name in names),
        )
        for group in groups
    ]
    head = ("asked", "answered as asked", "booked at carriers", "announced", "open", "refused")
    return Table(
        "Nothing lost, nothing bought twice",
        ("strategy", *head, "bought twice"),
        tuple(rows),
        "Booked is the carriers' own ledger. Booked and not answered as asked: the client had "
        "gone, or got a 202; the label is there when it asks.",
    )


def _book(name: str) -> Figure:
    return lambda run: run["books"][name]


def errors_table(groups: Sequence[Group]) -> Table | None:
    """Return failures by class, summed over streams and repeats."""
    counted: dict[str, dict[str, int]] = {}
    for group in groups:
        classes = counted.setdefault(group.strategy, {})
        for run in group.measured():
            for _, _, stream in streams(run):
                for name, count in stream["summary"]["errors"].items():
                    classes[name] = classes.get(name, 0) + count
    names = sorted({name for classes in counted.values() for name in classes})
    if not names:
        return None
    rows = [
        (strategy, *(number(classes.get(name, 0)) for name in names))
        for strategy, classes in counted.items()
    ]
    return Table(
        "Failures by class",
        ("strategy", *names),
        tuple(rows),
        "http 202: accepted, the label comes later. unfinished: still waiting when the run was "
        "cut off.",
    )
