"""From single runs to what is compared: per strategy the median of its repeats, and their range."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from loadtests.happenings import FAILED
from loadtests.metrics import LATE_SHARE

Run = Mapping[str, Any]
# A figure of a row of the timeline: one look at the servers. None where the row doesn't have it.
Look = Callable[[Mapping[str, Any]], float | None]
# Whose curves are shown, marked as what they are: better seen than hidden.
SHOWN = ("measured", "invalid", "partial")
# The client-facing processes: what differs from strategy to strategy.
SERVING = ("web", "front", "hub")
# What a deployment does not need: the carriers, and the load.
NOT_OURS = ("simulator", "generator")


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over its repeats."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Self | None:
        """Return None of nothing: missing, not 0."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        return cls(statistics.median(known), min(known), max(known))


@dataclass(frozen=True, slots=True)
class Group:
    """All repeats of one strategy under one scenario and variant."""

    scenario: str
    variant: str
    strategy: str
    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """Return the strategy's family."""
        return str(self.runs[0]["family"])

    @property
    def valid(self) -> bool:
        """Say whether a run of it says something about the server."""
        return any(run["status"] == "measured" for run in self.runs)

    def measured(self) -> list[Run]:
        """Return the valid runs; where there are none, those that were measured at all."""
        valid = [run for run in self.runs if run["status"] == "measured"]
        return valid or [run for run in self.runs if run["status"] in SHOWN]

    def spread(self, figure: Callable[[Run], float | None]) -> Spread | None:
        """Return a figure over the measured runs."""
        return Spread.of(figure(run) for run in self.measured())

    def typical(self) -> Run | None:
        """Return the run whose curves stand for the group: the one in the middle by goodput."""

        def goodput(run: Run) -> float:
            return next((stream["summary"]["goodput"] for _, _, stream in streams(run)), 0.0)

        runs = sorted(self.measured(), key=goodput)
        return runs[(len(runs) - 1) // 2] if runs else None


def comparable(results: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the results as they began, without the runs that can't be compared with the last ones.

    A quick form and a full one of the same scenario have another carrier, and no common median: of
    a scenario run twice those count that had the last one's parameters, carriers, environment and
    number of workers.
    """
    ordered = sorted(results, key=lambda result: str(result["began"]))
    pairs = [(result, run) for result in ordered for run in result["runs"]]
    # Measured ones last: a later bench whose runs are all missing takes no figure's place.
    pairs.sort(key=lambda pair: pair[1]["status"] in SHOWN)
    last = {run["scenario"]: _form(result, run) for result, run in pairs}

    def kept(result: Mapping[str, Any]) -> list[Run]:
        return [run for run in result["runs"] if _form(result, run) == last[run["scenario"]]]

    return [{**result, "runs": kept(result)} for result in ordered]


def _form(result: Mapping[str, Any], run: Run) -> Any:
    facts = result["scenarios"][run["scenario"]]
    return [facts.get(name) for name in ("parameters", "carriers", "environment")], result["sizing"]


def groups(results: Sequence[Mapping[str, Any]]) -> list[Group]:
    """Return the runs of all results, grouped; by family, then by name."""
    found: dict[tuple[str, str, str], list[Run]] = {}
    for result in results:
        for run in result["runs"]:
            key = run["scenario"], run["variant"], run["strategy"]
            found.setdefault(key, []).append(run)
    every = [Group(*key, tuple(runs), tuple(_notes(runs))) for key, runs in found.items()]
    return sorted(every, key=lambda group: (group.family, group.strategy))


def _notes(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        if run["status"] != "measured":
            yield f"run {run['repeat']} {run['status']}: {run['reason']}{_where_late(run)}"
        for phase in run.get("phases", ()):
            for event in phase["events"]:
                if event["said"].startswith((FAILED, "no reload")):
                    yield f"run {run['repeat']}: {event['said']}"


def _where_late(run: Run) -> str:
    """Return which phases were sent late, where others were not: the figures of those stand."""
    sent = [(phase, stream["summary"]) for phase, _, stream in streams(run)]
    late = {
        phase: figures["late_sends"] / figures["asked"]
        for phase, figures in sent
        if figures["late_sends"] > LATE_SHARE * figures["asked"]
    }
    if not late or len(late) == len({phase for phase, _ in sent}):
        return ""
    which = ", ".join(f"{phase} ({share:.1%})" for phase, share in late.items())
    return f"; late were {which}; the other phases were sent on time"


def streams(run: Run) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield phase, stream and its figures, of those that sent something."""
    for phase in run.get("phases", ()):
        for name, stream in phase["streams"].items():
            if stream["summary"]:
                yield phase["name"], name, stream


def stream_of(run: Run, phase: str, stream: str) -> Mapping[str, Any] | None:
    """Return one stream's figures."""
    return next((found for p, s, found in streams(run) if (p, s) == (phase, stream)), None)


def peak(run: Run, look: Look) -> float | None:
    """Return the highest value that a figure had in the run's timeline."""
    return max(_seen(run.get("timeline", ()), look), default=None)


def mean(run: Run, look: Look) -> float | None:
    """Return a figure's mean over the run's phases."""
    values = _seen(in_phases(run), look)
    return statistics.fmean(values) if values else None


def in_phases(run: Run) -> list[Mapping[str, Any]]:
    """Return the timeline's rows from each phase's first request to its last answer.

    Not those of rest and settling, whose length differs from strategy to strategy.
    """
    return [
        row
        for phase in run.get("phases", ())
        for row in run.get("timeline", ())
        if (at := row["at"] - phase["start"]) > 0
        and any(at <= len(stream["seconds"]) for stream in phase["streams"].values())
    ]


def _seen(rows: Iterable[Mapping[str, Any]], look: Look) -> list[float]:
    return [value for row in rows if (value := look(row)) is not None]


def plain(name: str) -> Look:
    """Return what a row has under that name."""
    return lambda row: row.get(name)


def busy(row: Mapping[str, Any]) -> int | None:
    """Return how many workers serve a request; some of these wait."""
    return row.get("busy", {}).get("serving")


def used(what: str, *kinds: str) -> Look:
    """Return the cores ("cpu") or MB ("memory") of these kinds of process.

    None named: of all that a deployment needs.
    """

    def look(row: Mapping[str, Any]) -> float | None:
        known = row.get(what, {})
        mine = kinds or [name for name in known if name not in NOT_OURS]
        values = [known[name] for name in mine if name in known]
        return sum(values) if values else None

    return look
