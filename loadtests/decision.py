"""Which strategy to take: what was measured of each, what it needs, and its folder's own advice.

What was not measured says so, and is never 0; what has no valid run is marked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deploy import strategy as strategies
from deploy.strategy import Strategy
from loadtests.aggregate import Group, Run, stream_of, streams
from loadtests.tables import PROMISED, Figure, Table, number, percent, spread
from loadtests.verdict import ALIKE

NOT_MEASURED = "not measured"
DOUBT = " †"
NOTHING = "nothing"
SYSTEM = "apt-get install "
# The scenarios of the decision table.
TABLED = ("talk", "outage", "capacity", "reload")
# A share of failures with which nobody is told to take it.
TOO_MANY = 0.01
# A share that rounds to nothing in a table.
NONE_WORTH_SAYING = 0.0005


@dataclass(frozen=True, slots=True)
class Evidence:
    """The groups of one bench by scenario and strategy: at equal workers, and at equal memory."""

    equal: Mapping[tuple[str, str], Group]
    fitted: Mapping[tuple[str, str], Group]

    @classmethod
    def of(cls, groups: Sequence[Group]) -> Evidence:
        """Sort the groups of scenarios without variants."""
        plain = [group for group in groups if not group.variant]
        return cls(
            {
                (group.scenario, group.strategy): group
                for group in plain
                if not is_fitted(group.sizing)
            },
            {(group.scenario, group.strategy): group for group in plain if is_fitted(group.sizing)},
        )

    def names(self) -> list[str]:
        """Return all strategies: the best of the measured first, the not measured last."""
        known = {name for _, name in self.equal} | set(strategies.names())
        return sorted(known, key=lambda name: (self._rank(name), name))

    def _rank(self, name: str) -> tuple[bool, bool, float]:
        group = self.equal.get(("talk", name))
        found = group.spread(share) if group else None
        if group is None or found is None:
            return True, True, 0.0
        return False, not group.valid, -found.median


def is_fitted(sizing: str) -> bool:
    """Say whether the workers were as many as fit into an equal memory."""
    return " MB " in sizing


def share(run: Run) -> float | None:
    """Return which part of the possible rate came as good answers."""
    labels = stream_of(run, "talk", "labels")
    return labels["summary"]["goodput"] / labels["limit"] if labels else None


def result_table(evidence: Evidence) -> Table:
    """Return how `talk` went for each strategy."""
    columns: list[tuple[str, Figure, Callable[[float], str]]] = [
        ("labels per s", _labels(lambda summary: summary["goodput"]), number),
        ("of the limit", share, percent),
        ("failed", _labels(lambda summary: summary["error_share"]), percent),
        ("wait, p50", _labels(_percentile("p50")), seconds),
        ("wait, p99", _labels(_percentile("p99")), seconds),
        ("cheap reads meanwhile, p99", _canary("talk", _p99), seconds),
    ]
    head = [name for name, _, _ in columns]
    if evidence.fitted:
        head.append("of the limit at equal memory")
    rows = []
    for name in evidence.names():
        group = evidence.equal.get(("talk", name))
        cells = [_cell(group, figure, form) for _, figure, form in columns]
        if evidence.fitted:
            cells.append(_cell(evidence.fitted.get(("talk", name)), share, percent))
        rows.append((name, *cells))
    return Table("Result", ("strategy", *head), tuple(rows))


def decision_table(evidence: Evidence) -> Table:
    """Return one row for each strategy: what it gives, what it costs, when to take it."""
    head = (
        "strategy",
        "of the limit",
        "failed",
        "cheap reads in the outage, p99",
        "memory for one more who waits",
        "to install",
        "a reload",
        "take it",
    )
    rows = [(name, *_row(evidence, name)) for name in evidence.names()]
    return Table("Decision", head, tuple(rows))


def _row(evidence: Evidence, name: str) -> Iterator[str]:
    talk = evidence.equal.get(("talk", name))
    yield _cell(talk, share, percent)
    yield _cell(talk, _labels(lambda summary: summary["error_share"]), percent)
    yield _with_failed(evidence.equal.get(("outage", name)), "outage", "canary", _canary_outage)
    yield _with_failed(evidence.equal.get(("capacity", name)), "capacity", "labels", _each)
    known = name in strategies.names()
    yield to_install(strategies.load(name)) if known else "-"
    yield reload(evidence.equal.get(("reload", name)), strategies.load(name) if known else None)
    yield advice(strategies.load(name)) if known else "-"


def _cell(group: Group | None, figure: Figure, form: Callable[[float], str]) -> str:
    found = group.spread(figure) if group else None
    if group is None or found is None:
        return NOT_MEASURED
    return spread(found, form) + ("" if group.valid else DOUBT)


def _with_failed(
    group: Group | None, phase: str, stream: str, cell: Callable[[Group | None], str]
) -> str:
    """Return a cell, and the share that failed where there is one: a quick error is no answer."""
    lost = group.spread(_summary(phase, stream, lambda s: s["error_share"])) if group else None
    if lost is None or lost.median < NONE_WORTH_SAYING:
        return cell(group)
    return f"{cell(group)}, {percent(lost.median)} failed"


def _canary_outage(group: Group | None) -> str:
    return _cell(group, _canary("outage", _p99), seconds)


def _each(group: Group | None) -> str:
    return _cell(group, memory_each, lambda value: f"{value:,.0f} KB")


def seconds(value: float) -> str:
    """Return seconds in words; endless where no good answer came."""
    return "no answer" if value == math.inf else f"{number(value)} s"


def _labels(figure: Callable[[Mapping[str, Any]], float | None]) -> Figure:
    return _summary("talk", "labels", figure)


def _summary(
    phase: str, stream: str, figure: Callable[[Mapping[str, Any]], float | None]
) -> Figure:
    def found(run: Run) -> float | None:
        figures = stream_of(run, phase, stream)
        return figure(figures["summary"]) if figures else None

    return found


def _percentile(name: str) -> Callable[[Mapping[str, Any]], float]:
    """Return a percentile of the good answers; endless where there is none: worst, not missing."""

    def found(summary: Mapping[str, Any]) -> float:
        latency = summary["latency"]
        return latency[name] if latency else math.inf

    return found


_p99 = _percentile("p99")


def _canary(phase: str, figure: Callable[[Mapping[str, Any]], float]) -> Figure:
    return _summary(phase, "canary", figure)


def memory_each(run: Run) -> float | None:
    """Return the KB that web, front and hub took for each client that waited.

    From the first look, with nobody there, to the look at which most waited.
    """
    waiting = _waiting(run)
    looks = [
        (row["serving_memory"], waiting[int(row["at"])])
        for row in run.get("timeline", ())
        if "serving_memory" in row and int(row["at"]) in waiting
    ]
    first = next((row["serving_memory"] for row in run["timeline"] if "serving_memory" in row), 0)
    memory, clients = max(looks, key=lambda look: look[1], default=(0.0, 0.0))
    return (memory - first) * 1000 / clients if clients else None


def _waiting(run: Run) -> dict[int, float]:
    """Return how many waited for a label in each second of the run."""
    starts = {phase["name"]: phase["start"] for phase in run.get("phases", ())}
    return {
        int(starts[phase] + second["at"]): second["in_flight"]
        for phase, name, stream in streams(run)
        if name == "labels"
        for second in stream["seconds"]
    }


def to_install(strategy: Strategy) -> str:
    """Return what a strategy needs beyond Django."""
    how = strategy.needs.install.partition("|")[0].partition("(")[0].strip()
    if how.startswith(SYSTEM):
        return ", ".join([*how.removeprefix(SYSTEM).split(), *strategy.needs.modules])
    needed = [*strategy.needs.binaries, *strategy.needs.modules]
    return ", ".join(needed) + (f" (`{how}`)" if how else "") or NOTHING


def reload(group: Group | None, strategy: Strategy | None) -> str:
    """Return what a reload of app and front did to those who waited; why not, where it has none."""
    if strategy and "app" not in strategy.reload:
        return strategy.cannot.get("reload-app", "none")
    asked = group.spread(_summary("reload", "labels", lambda s: s["asked"])) if group else None
    if group is None or asked is None:
        return NOT_MEASURED
    lost = group.spread(_summary("reload", "labels", _lost))
    later = group.spread(_summary("reload", "labels", lambda s: s["errors"].get(PROMISED, 0)))
    said = f"{spread(lost)} of {number(asked.median)} lost"
    if later and later.high:
        said += f", {spread(later)} got their label later (202)"
    return said + ("" if group.valid else DOUBT)


def _lost(summary: Mapping[str, Any]) -> float:
    errors: Mapping[str, int] = summary["errors"]
    return float(sum(count for name, count in errors.items() if name != PROMISED))


def advice(strategy: Strategy) -> str:
    """Return what its README says under "When to take it", in one line."""
    readme = strategy.folder / "README.md"
    text = readme.read_text() if readme.exists() else ""
    _, _, after = text.partition("## When to take it\n")
    return " ".join(after.partition("\n## ")[0].split()) or "-"


def short_answers(evidence: Evidence) -> list[str]:
    """Return which strategy to take in each situation.

    The fewest failures first, then the rate; of those that are alike, the one that needs least: a
    rank within the noise is no reason to install something.
    """
    held, waits = strategies.FAMILIES[1], strategies.FAMILIES[0]
    situations: list[tuple[str, Callable[[Strategy], bool]]] = [
        (
            "Nothing but Python packages can be installed",
            lambda one: one.family == held and not one.needs.binaries,
        ),
        (
            "An nginx is there, or can be",
            lambda one: one.family == held and "nginx" in one.needs.binaries,
        ),
        ("The worker must do the waiting itself", lambda one: one.family == waits),
    ]
    return [f"{words}: {_take(evidence, fits)}." for words, fits in situations]


@dataclass(frozen=True, slots=True)
class _Candidate:
    name: str
    rate: float
    failed: float

    @property
    def needs(self) -> int:
        """Return how many things must be installed for it."""
        found = to_install(strategies.load(self.name))
        return 0 if found == NOTHING else found.count(", ") + 1


def _take(evidence: Evidence, fits: Callable[[Strategy], bool]) -> str:
    found = [one for one in _candidates(evidence) if fits(strategies.load(one.name))]
    if not found:
        return f"{NOT_MEASURED}, or not validly"
    fewest = min(round(one.failed, 2) for one in found)
    sound = [one for one in found if round(one.failed, 2) == fewest]
    least = (1 - ALIKE) * max(one.rate for one in sound)
    alike = [one for one in sound if one.rate >= least]
    best = min(alike, key=lambda one: (one.needs, -one.rate, one.name))
    said = f"**{best.name}** ({percent(best.rate)} of the limit, {percent(best.failed)} failed)"
    if best.failed > TOO_MANY:
        said = f"none without failures; the fewest had {said}"
    if len(found) == 1:
        return f"{said}, the only one measured"
    said += f", of {len(found)}"
    if others := ", ".join(sorted(one.name for one in alike if one is not best)):
        said += f". Alike within {percent(ALIKE)}, and none needs less: {others}"
    return said


def _candidates(evidence: Evidence) -> Iterator[_Candidate]:
    failed = _labels(lambda summary: summary["error_share"])
    for name in strategies.names():
        group = evidence.equal.get(("talk", name))
        if group and group.valid:
            rate, lost = group.spread(share), group.spread(failed)
            if rate and lost:
                yield _Candidate(name, rate.median, lost.median)


def footnotes(evidence: Evidence) -> list[str]:
    """Return why figures are marked, and why runs are missing."""
    return [
        f"{group.strategy}, `{group.scenario}`{where}: {'; '.join(dict.fromkeys(group.notes))}"
        for where, found in (("", evidence.equal), (" at equal memory", evidence.fitted))
        for group in found.values()
        if group.scenario in TABLED and not group.valid
    ]
