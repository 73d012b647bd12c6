"""Charts as plain values: what a scenario's `charts` asks for, drawn by `pictures`.

`"good: labels"` is of a stream, `"busy"` of the servers, `"phases: labels"` of a stream by phase.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadtests.aggregate import Group, Run, busy, stream_of, streams
from loadtests.figures import outage_of

# Seconds over which rates are taken: where a second has but a few requests its rate is noise.
WINDOW = 5

Figures = Mapping[str, Any]
Point = tuple[float, float | None]


@dataclass(frozen=True, slots=True)
class Line:
    """One strategy's points, by x; None is a gap."""

    strategy: str
    family: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """`band` is shaded: the outage. `ticks` are the names of x = 0, 1, 2, …, where it has names."""

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    log: bool = False
    band: tuple[float, float] | None = None
    ticks: tuple[str, ...] = ()


def _rate(count: Callable[[Figures], float]) -> Callable[[Figures], list[Point]]:
    def points(stream: Figures) -> list[Point]:
        starts = range(0, len(stream["seconds"]), WINDOW)
        windows = [(start, stream["seconds"][start : start + WINDOW]) for start in starts]
        return [
            (start + len(window) / 2, sum(map(count, window)) / len(window))
            for start, window in windows
        ]

    return points


# kind: title, y, points of a stream's figures
OF_STREAMS: Mapping[str, tuple[str, str, Callable[[Figures], list[Point]]]] = {
    "good": ("Good answers per second", "per s", _rate(lambda each: each["good"])),
    "failed": ("Failures per second", "per s", _rate(lambda each: sum(each["errors"].values()))),
    "p50": (
        "Response time, median of each second",
        "seconds, log",
        lambda stream: [(second["at"], second["p50"] or None) for second in stream["seconds"]],
    ),
    "waiting": (
        "Clients that wait",
        "clients",
        lambda stream: [(second["at"], second["in_flight"]) for second in stream["seconds"]],
    ),
}
# kind: title, y, value of a look at the servers
OF_SERVERS: Mapping[str, tuple[str, str, Callable[[Figures], float | None]]] = {
    "busy": ("Busy workers", "workers", busy),
    "open": ("Announcements that have not ended", "announcements", lambda row: row.get("open")),
    "memory": ("Memory of web, front and hub", "MB", lambda row: row.get("serving_memory")),
}


class ChartError(ValueError):
    """There is no such chart."""


def chart(wanted: str, groups: Sequence[Group]) -> Chart | None:
    """Return a chart of one scenario, each group a line; None where nothing was measured for it."""
    kind, _, name = wanted.partition(": ")
    typical = [(group, run) for group in groups if (run := group.typical())]
    if kind in OF_STREAMS and name:
        made = _of_stream(kind, name, typical)
    elif kind == "phases" and name:
        made = _of_phases(name, typical)
    elif kind in OF_SERVERS and not name:
        made = _of_servers(kind, typical)
    else:
        known = [*(f"{one}: …" for one in (*OF_STREAMS, "phases")), *OF_SERVERS]
        raise ChartError(f"no chart {wanted!r}: {known}")
    return made if any(y is not None for line in made.lines for _, y in line.points) else None


def _of_stream(kind: str, name: str, typical: Sequence[tuple[Group, Run]]) -> Chart:
    title, y, points = OF_STREAMS[kind]
    lines = tuple(
        Line(group.strategy, group.family, tuple(points(figures)))
        for group, run in typical
        for _, stream, figures in streams(run)
        if stream == name
    )
    band = _outage(typical)
    return Chart(f"{title}: {name}", "seconds", y, lines, log=y.endswith("log"), band=band)


def _of_phases(name: str, typical: Sequence[tuple[Group, Run]]) -> Chart:
    """Return a stream's slowest one percent in each phase; who gave up has waited so long."""
    phases = list(dict.fromkeys(phase["name"] for _, run in typical for phase in run["phases"]))
    lines = []
    for group, run in typical:
        found = [(stream_of(run, phase, name) or {}).get("summary") for phase in phases]
        points = [each["latency"]["p99"] if each and each["latency"] else None for each in found]
        if any(found):
            lines.append(Line(group.strategy, group.family, tuple(enumerate(points))))
    title = f"Waiting for an answer, slowest one percent: {name}"
    return Chart(title, "", "seconds, log", tuple(lines), log=True, ticks=tuple(phases))


def _of_servers(kind: str, typical: Sequence[tuple[Group, Run]]) -> Chart:
    title, unit, value = OF_SERVERS[kind]

    def points(run: Run) -> tuple[Point, ...]:
        return tuple((row["at"], y) for row in run["timeline"] if (y := value(row)) is not None)

    lines = tuple(Line(group.strategy, group.family, points(run)) for group, run in typical)
    return Chart(title, "seconds of the run", unit, lines, band=_outage(typical, of_run=True))


def _outage(
    typical: Sequence[tuple[Group, Run]], *, of_run: bool = False
) -> tuple[float, float] | None:
    """Return when the first fault began and was healed; the timeline begins before its phases."""
    for _, run in typical:
        for phase in run["phases"]:
            if hours := outage_of(phase["events"]):
                start = phase["start"] if of_run else 0.0
                return start + hours[0], start + hours[1]
    return None
