"""The strategies side by side, from the runs of one bench: a row each, by family and name.

What was not measured says so, and is never 0; what has no valid run is marked. No ranks: where the
ranges of two overlap, their order would say nothing.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from deploy import strategy as strategies
from deploy.strategy import Strategy
from loadtests.aggregate import Group, Look, Run, mean, peak, plain, stream_of, streams, used
from loadtests.figures import outage_of
from loadtests.metrics import UNFINISHED
from loadtests.tables import PROMISED, Figure, Table, bound, number, percent, slots, spread

NOT_MEASURED = "not measured"
DOUBT = " †"
SYSTEM = "apt-get install "
# Traffic grows over an outage's run: what is three times the most of before is a backlog.
BACKLOG = 3
# What else than a loss may have become of a client in a reload.
NOT_LOST = {PROMISED: "got their label later (202)", UNFINISHED: "still waited at the run's end"}
# A share that rounds to nothing in a table.
NONE_WORTH_SAYING = 0.0005

Summary = Mapping[str, Any]


class Column(NamedTuple):
    """One figure of one scenario."""

    head: str
    scenario: str
    cell: Callable[[Group | None], str]


def comparison(groups: Sequence[Group]) -> Table:
    """Return what was measured of each strategy."""
    plain = {(one.scenario, one.strategy): one for one in groups if not one.variant}
    rows = [
        (name, *(column.cell(plain.get((column.scenario, name))) for column in COLUMNS))
        for name in _ordered()
    ]
    return Table("Comparison", ("strategy", *(column.head for column in COLUMNS)), tuple(rows))


def needs() -> Table:
    """Return what each strategy needs, and its folder's own advice."""
    found = [strategies.load(name) for name in _ordered()]
    rows = tuple((one.name, to_install(one), advice(one)) for one in found)
    return Table("Needs", ("strategy", "to install", "take it"), rows)


def _ordered() -> list[str]:
    """Return all strategies by family, then by name."""
    return sorted(strategies.names(), key=lambda name: (strategies.load(name).family, name))


def footnotes(groups: Sequence[Group]) -> list[str]:
    """Return why figures are marked."""
    tabled = {column.scenario for column in COLUMNS}
    return [
        f"{group.strategy}, `{group.scenario}`: {'; '.join(dict.fromkeys(group.notes))}"
        for group in groups
        if group.scenario in tabled and not group.variant and not group.valid
    ]


def share(run: Run) -> float | None:
    """Return which part of the possible rate came as good answers."""
    labels = stream_of(run, "talk", "labels")
    return labels["summary"]["goodput"] / labels["limit"] if labels else None


def _of(phase: str, stream: str, figure: Callable[[Summary], float | None]) -> Figure:
    def found(run: Run) -> float | None:
        figures = stream_of(run, phase, stream)
        return figure(figures["summary"]) if figures else None

    return found


def _percentile(name: str) -> Callable[[Summary], float]:
    """Return a percentile of the waits; endless where no good answer came: worst, not missing."""
    return lambda summary: summary["latency"][name] if summary["good"] else math.inf


def _cell(figure: Figure, form: Callable[[float], str]) -> Callable[[Group | None], str]:
    def cell(group: Group | None) -> str:
        found = group.spread(figure) if group else None
        if group is None or found is None:
            return NOT_MEASURED
        return spread(found, form) + ("" if group.valid else DOUBT)

    return cell


def _with_failed(
    phase: str, stream: str, figure: Figure, form: Callable[[float], str]
) -> Callable[[Group | None], str]:
    """Return a cell with the share that failed, where there is one: an error may be quick."""

    def cell(group: Group | None) -> str:
        lost = group.spread(_of(phase, stream, lambda s: s["error_share"])) if group else None
        said = _cell(figure, form)(group)
        if lost is None or lost.high < NONE_WORTH_SAYING:
            return said
        return f"{said}, {spread(lost, percent)} failed"

    return cell


def seconds(value: float) -> str:
    """Return seconds in words; endless where no good answer came."""
    return "no good answer" if value == math.inf else f"{number(value)} s"


def memory_each(look: Look, run: Run) -> float | None:
    """Return the KB for each client that waited, by such a figure of memory.

    From the first look, with nobody there, to the look at which most waited.
    """
    waiting = _waiting(run)
    looks = [
        (waiting.get(int(row["at"]), 0.0), memory)
        for row in run["timeline"]
        if (memory := look(row)) is not None
    ]
    clients, memory = max(looks, key=itemgetter(0), default=(0.0, 0.0))
    return (memory - looks[0][1]) * 1000 / clients if clients else None


def worked_off(run: Run) -> float | None:
    """Return the seconds from the carrier's return until nobody waits longer than for his label.

    Whoever is larger counts: clients that wait, at the server's door among them, or announcements
    that have not ended, also those of whom no client waits any more. Endless where a backlog was
    left at the run's end, also of clients that were cut off; None without an outage.
    """
    phase = next(iter(run.get("phases", ())), None)
    hours = outage_of(phase["events"]) if phase else None
    if phase is None or hours is None:
        return None
    level: Counter[int] = Counter()
    cut_off = 0
    for stream in phase["streams"].values():
        for second in stream["seconds"]:
            level[int(second["at"])] += second["in_flight"]
            cut_off += second["errors"].get(UNFINISHED, 0)
    for row in run["timeline"]:
        at = int(row["at"] - phase["start"])
        level[at] = max(level[at], row.get("open", 0))
    last = max(level)  # the run goes on while it settles, and who was cut off would wait on
    level[last] = max(level[last], cut_off)
    begin, end = hours
    usual = max((waiting for at, waiting in level.items() if at < begin), default=0)
    behind = [
        at for at, waiting in level.items() if at >= end and waiting > BACKLOG * max(usual, 1)
    ]
    if max(behind, default=0) == last:
        return math.inf
    return max(behind) + 1 - end if behind else 0.0


def _waiting(run: Run) -> dict[int, float]:
    """Return how many waited for a label in each second of the run."""
    starts = {phase["name"]: phase["start"] for phase in run.get("phases", ())}
    return {
        int(starts[phase] + second["at"]): second["in_flight"]
        for phase, name, stream in streams(run)
        if name == "labels"
        for second in stream["seconds"]
    }


def reload(group: Group | None) -> str:
    """Return what a reload of app and front did to those who waited."""
    asked = group.spread(_of("reload", "labels", lambda s: s["asked"])) if group else None
    if group is None or asked is None:
        return NOT_MEASURED
    if "app" not in strategies.load(group.strategy).reload:
        return "has none"

    def errors(of: Callable[[str], bool]) -> Figure:
        return _of("reload", "labels", lambda s: sum(n for e, n in s["errors"].items() if of(e)))

    lost = group.spread(errors(lambda each: each not in NOT_LOST))
    said = f"{spread(lost)} of {number(asked.median)} lost"
    for error, meaning in NOT_LOST.items():
        if (found := group.spread(errors(error.__eq__))) and found.high:
            said += f", {spread(found)} {meaning}"
    return said + ("" if group.valid else DOUBT)


def _columns() -> Iterator[Column]:
    def within(value: float) -> str:
        return number(value) if value == math.inf else seconds(value)

    def labels(figure: Callable[[Summary], float | None]) -> Figure:
        return _of("talk", "labels", figure)

    def canary(phase: str) -> Callable[[Group | None], str]:
        p99 = _of(phase, "canary", _percentile("p99"))
        return _with_failed(phase, "canary", p99, seconds)

    yield Column("slots", "talk", _cell(slots, bound))
    yield Column("labels per s", "talk", _cell(labels(lambda s: s["goodput"]), number))
    yield Column("of the limit", "talk", _cell(share, percent))
    yield Column("failed", "talk", _cell(labels(lambda s: s["error_share"]), percent))
    yield Column("wait, slowest 1 %", "talk", _cell(labels(_percentile("p99")), seconds))
    took = (("MB", peak, used("memory")), ("cores", mean, used("cpu")))
    for head, over, look in took:
        yield Column(f"{head}, all told", "talk", _cell(partial(over, look=look), number))
    connections = partial(peak, look=plain("connections"))
    yield Column("database connections", "talk", _cell(connections, number))
    yield Column("slots with 500 clients waiting", "crowd", _cell(slots, bound))
    yield Column("other pages with 500 clients waiting, slowest 1 %", "crowd", canary("crowd"))
    yield Column("other pages in the outage, slowest 1 %", "outage", canary("outage"))
    yield Column("backlog worked off after the outage", "outage", _cell(worked_off, within))
    each = partial(memory_each, used("memory"))
    told = _with_failed("capacity", "labels", each, lambda value: f"{value:,.0f} KB")
    yield Column("memory per waiting client, all told", "capacity", told)
    yield Column("a reload", "reload", reload)


COLUMNS = tuple(_columns())


def to_install(strategy: Strategy) -> str:
    """Return what a strategy needs beyond Django."""
    how = strategy.needs.install.partition("|")[0].partition("(")[0].strip()
    if how.startswith(SYSTEM):
        return ", ".join([*how.removeprefix(SYSTEM).split(), *strategy.needs.modules])
    needed = [*strategy.needs.binaries, *strategy.needs.modules]
    return ", ".join(needed) + (f" (`{how}`)" if how else "") or "nothing"


def advice(strategy: Strategy) -> str:
    """Return what its README says under "When to take it", in one line."""
    readme = strategy.folder / "README.md"
    text = readme.read_text() if readme.exists() else ""
    _, _, after = text.partition("## When to take it\n")
    return " ".join(after.partition("\n## ")[0].split()) or "-"
