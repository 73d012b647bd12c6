"""The report's tables, as plain values."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from deploy import strategy as strategies
from deploy.plan import MAX_CONCURRENCY
from loadtests.aggregate import (
    NOT_OURS,
    SERVING,
    Group,
    Run,
    Spread,
    busy,
    mean,
    peak,
    plain,
    stream_of,
    streams,
    used,
)
from loadtests.metrics import LEAST_LIMIT, RECOVERED_SHARE, RECOVERY_WINDOW, SLOWER

MISSING = "-"
# A 202 is a promise kept later: not what was asked for, and not lost.
PROMISED = "http 202"
MEAN = "from each phase's first request to its last answer"
RECOVERED = (
    "Recovered: how long after the carrier came back all was as before, and stayed so: in each "
    f"{RECOVERY_WINDOW:.0f} s {RECOVERED_SHARE:.0%} of the share that was good before the outage "
    f"is answered well, within {SLOWER:.0f} times the 95th percentile of before or "
    f"{LEAST_LIMIT:.0f} s. 0: from the first {RECOVERY_WINDOW:.0f} s on, or never disturbed. "
    "Not in the run: not until the last request was sent."
)


@dataclass(frozen=True, slots=True)
class Table:
    """`rows` are strings; the first column is the strategy. `hint` is said below it."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    hint: str = ""


def markdown(table: Table, rule: str = "---:|") -> Iterator[str]:
    """Yield its lines; `rule` is that of all columns but the first."""
    for number_, row in enumerate([table.head, *table.rows]):
        yield f"| {' | '.join(map(cell, row))} |"
        if not number_:
            yield f"|---|{rule * (len(row) - 1)}"


def cell(text: str) -> str:
    """Return text that stays one cell and no markup: what a server said is nobody's HTML."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


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
    middle, low, high = form(value.median), form(value.low), form(value.high)
    return middle if low == high else f"{middle} ({low} to {high})"


# A column: its head, its figure, how that is written.
Column = tuple[str, Figure, Callable[[float], str]]


def _table(title: str, groups: Sequence[Group], columns: Sequence[Column], hint: str) -> Table:
    rows = tuple(
        (group.strategy, *(spread(group.spread(figure), form) for _, figure, form in columns))
        for group in groups
    )
    return Table(title, ("strategy", *(head for head, _, _ in columns)), rows, hint)


def stream_tables(groups: Sequence[Group]) -> list[Table]:
    """Return a table for each stream of one scenario and variant."""
    runs = [run for group in groups for run in group.measured()]
    found = dict.fromkeys((phase, stream) for run in runs for phase, stream, _ in streams(run))
    return [_stream_table(groups, runs, phase, stream) for phase, stream in found]


def _stream_table(groups: Sequence[Group], runs: Sequence[Run], phase: str, stream: str) -> Table:
    seen = [figures for run in runs if (figures := stream_of(run, phase, stream))]
    known = {key for figures in seen for key in figures}
    if all(figures["summary"]["asked"] >= figures["planned"] for figures in seen):
        known.remove("planned")  # each could be asked all of it

    def of(path: Callable[[Mapping[str, Any]], float | None], key: str) -> Figure:
        def figure(run: Run) -> float | None:
            figures = stream_of(run, phase, stream)
            return path(figures) if figures and key in figures else None

        return figure

    columns = [(head, of(path, key), form) for head, path, form, key in _STREAM if key in known]
    title = stream if phase == stream else f"{phase}: {stream}"
    hint = "Seconds from the intended start, until the good answer or until the client gave up. "
    return _table(title, groups, columns, hint + (RECOVERED if "recovery" in known else ""))


def _latency(name: str) -> Callable[[Mapping[str, Any]], float | None]:
    return lambda figures: (figures["summary"]["latency"] or {}).get(name)


# Head, figure of a stream, form, and which of the stream's figures it needs.
_STREAM = (
    ("good per s", lambda figures: figures["summary"]["goodput"], number, "summary"),
    ("of possible", lambda f: f["summary"]["goodput"] / f["limit"], percent, "limit"),
    ("of possible, all open", lambda f: f["all_open"] / f["limit"], percent, "all_open"),
    ("planned", lambda figures: figures["planned"], number, "planned"),
    ("asked", lambda figures: figures["summary"]["asked"], number, "summary"),
    ("failed", lambda figures: figures["summary"]["error_share"], percent, "summary"),
    ("min", _latency("minimum"), number, "summary"),
    *((name, _latency(name), number, "summary") for name in ("mean", "p50", "p90", "p95", "p99")),
    ("max", _latency("maximum"), number, "summary"),
    ("p50 beyond the carrier", lambda f: f["beyond_carrier"]["p50"], number, "beyond_carrier"),
    ("p99 beyond the carrier", lambda f: f["beyond_carrier"]["p99"], number, "beyond_carrier"),
    # Endless where it did not recover: the worst, not missing.
    (
        "recovered after s",
        lambda f: math.inf if f["recovery"] is None else f["recovery"],
        number,
        "recovery",
    ),
)


def slots(run: Run) -> float | None:
    """Return how many requests the run's workers served at once: endless without a bound."""
    if run["strategy"] not in strategies.names():
        return None  # it has been renamed since
    sizes = {"OFFLOAD_MAX_CONCURRENCY": str(MAX_CONCURRENCY), **run.get("sizes", {})}
    return strategies.load(run["strategy"]).slots_in(sizes) or math.inf


def bound(value: float) -> str:
    """Return a number of slots."""
    return "no bound" if value == math.inf else number(value)


def server_table(groups: Sequence[Group]) -> Table:
    """Return what the servers used, by strategy."""
    took = (
        ("serving MB, peak", peak, plain("serving_memory")),
        ("serving cores, mean", mean, used("cpu", *SERVING)),
        ("MB all told, peak", peak, used("memory")),
        ("cores all told, mean", mean, used("cpu")),
        ("database connections, peak", peak, plain("connections")),
        ("holds, peak", peak, plain("held")),
        ("busy workers, peak", peak, busy),
        ("others' cores, mean", mean, plain("others")),
        ("load, mean", mean, plain("load")),
    )
    columns: list[Column] = [("slots", slots, bound)]
    columns += [(head, partial(over, look=look), number) for head, over, look in took]
    return _table(
        "What it took",
        groups,
        columns,
        "Serving: web, front and hub together (proportional set size). All told: worker, sweeper, "
        "PostgreSQL and Redis, too. Others' cores: what the machine did besides; the less, the "
        f"better the figures. Mean: {MEAN}, which comes later with some than with others.",
    )


def process_table(groups: Sequence[Group]) -> Table:
    """Return what each kind of process used; missing where a strategy has none."""
    rows = [row for group in groups for run in group.measured() for row in run["timeline"]]
    kinds = dict.fromkeys(name for row in rows for name in row["cpu"] if name not in NOT_OURS)
    columns: list[Column] = [
        (f"{kind} {unit}", partial(over, look=used(what, kind)), number)
        for kind in kinds
        for unit, over, what in (("MB", peak, "memory"), ("cores", mean, "cpu"))
    ]
    return _table("Each kind of process", groups, columns, f"MB at the peak; cores: mean {MEAN}.")


# Head: its figure in a run's books.
_BOOKS = {
    "asked": "asked",
    "answered as asked": "answered_well",
    "booked at carriers": "booked",
    "announced": "announced",
    "open": "open",
    "refused": "failed",
    "bought twice": "doubled",
}


def books_table(groups: Sequence[Group]) -> Table | None:
    """Return what was asked and what the carriers' ledger says; None where nothing was bought."""
    if not any(run["books"]["asked"] for group in groups for run in group.measured()):
        return None

    def book(name: str) -> Figure:
        return lambda run: run["books"][name]

    return _table(
        "Nothing lost, nothing bought twice",
        groups,
        [
            *((head, book(name), number) for head, name in _BOOKS.items()),
            ("last one ended after s", last_ended, number),
        ],
        "Booked is the carriers' own ledger. Booked and not answered as asked: the client had "
        "gone, or got a 202; the label is there when it asks.",
    )


def last_ended(run: Run) -> float | None:
    """Return after how many seconds from the first send no announcement was open any more."""
    if run["books"]["open"] or "settled" not in run:
        return None
    return float(run["settled"] - run["phases"][0]["start"])


def errors_table(groups: Sequence[Group]) -> Table | None:
    """Return failures by class, all streams of a run together; None where nothing failed."""

    def failures(run: Run) -> Counter[str]:
        return sum((Counter(each["summary"]["errors"]) for _, _, each in streams(run)), Counter())

    def count(name: str) -> Figure:
        return lambda run: failures(run)[name]

    names = sorted({name for group in groups for run in group.measured() for name in failures(run)})
    if not names:
        return None
    return _table(
        "Failures by class",
        groups,
        [(name, count(name), number) for name in names],
        "Median per run (lowest to highest), all streams together. http 202: accepted, the label "
        "comes later. unfinished: still waiting when the run was cut off.",
    )
