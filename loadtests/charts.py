"""The report's charts, as plain values: the page and the pictures are drawn from the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loadtests.aggregate import Group, Run, busy, streams

# Seconds over which rates are taken where a second has but a few requests.
WINDOW = 5
_SHARES = ("minimum", "p50", "p90", "p95", "p99", "maximum")
_SHARE_LABELS = ("min", "50 %", "90 %", "95 %", "99 %", "max")

HANGS = "the carrier hangs"

Point = tuple[float, float | None]
Figure = Callable[[Mapping[str, Any]], float | None]
Typical = Sequence[tuple[Group, Run]]


@dataclass(frozen=True, slots=True)
class Line:
    """One strategy's points, by x."""

    strategy: str
    family: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """`band` is shaded from x to x; `ticks` are the names of x = 0, 1, 2, …, where it has names."""

    title: str
    hint: str
    x: str
    y: str
    lines: tuple[Line, ...]
    log: bool = False
    band: tuple[float, float] | None = None
    band_label: str = ""
    ticks: tuple[str, ...] = field(default=())


def charts(groups: Sequence[Group]) -> list[Chart]:
    """Return the charts of one scenario and variant; those with nothing to show are left out."""
    typical = [(group, run) for group in groups if (run := group.typical())]
    every = [*_stream_charts(typical), *_server_charts(typical)]
    return [chart for chart in every if any(line.points for line in chart.lines)]


@dataclass(frozen=True, slots=True)
class _Stream:
    """One stream under all strategies."""

    title: str
    typical: Typical
    phase: str
    name: str

    def lines(self, points: Callable[[Mapping[str, Any]], list[Point]]) -> tuple[Line, ...]:
        """Return each strategy's line."""
        return tuple(
            Line(group.strategy, group.family, tuple(points(found)))
            for group, run in self.typical
            for phase, name, found in streams(run)
            if (phase, name) == (self.phase, self.name)
        )

    def figures(self) -> list[Mapping[str, Any]]:
        """Return each strategy's figures."""
        return [
            found
            for _, run in self.typical
            for phase, name, found in streams(run)
            if (phase, name) == (self.phase, self.name)
        ]

    @property
    def band(self) -> tuple[float, float] | None:
        """Return when the fault was there."""
        return _band(self.typical, self.phase)


def _stream_charts(typical: Typical) -> Iterator[Chart]:
    found = dict.fromkeys((phase, name) for _, run in typical for phase, name, _ in streams(run))
    for phase, name in found:
        title = name if phase == name else f"{phase}: {name}"
        stream = _Stream(title, typical, phase, name)
        if name == "canary":
            yield _canary(stream)
        else:
            yield _good(stream)
            yield from _offered(stream)
        yield _latency(stream)
        yield from _errors(stream)


def _canary(stream: _Stream) -> Chart:
    return Chart(
        "Canary: what a request that needs no carrier takes",
        "Median of each second; a line that ends got no answers any more.",
        "seconds",
        "seconds, log",
        stream.lines(_over_time("p50")),
        log=True,
        band=stream.band,
        band_label=HANGS,
    )


def _good(stream: _Stream) -> Chart:
    return Chart(
        f"Good answers per second: {stream.title}",
        f"Over {WINDOW} s each.",
        "seconds",
        "good answers per s",
        stream.lines(_goodput),
        band=stream.band,
        band_label=HANGS,
    )


def _latency(stream: _Stream) -> Chart:
    return Chart(
        f"Latency: {stream.title}",
        "How long clients waited for good answers: so many waited no longer than that. From the "
        "intended start.",
        "share of the answers",
        "seconds, log",
        stream.lines(_percentiles),
        log=True,
        ticks=_SHARE_LABELS,
    )


def _band(typical: Typical, phase: str) -> tuple[float, float] | None:
    for _, run in typical:
        for found in run.get("phases", ()):
            faults = [event["at"] for event in found["events"] if event["kind"] == "fault"]
            heals = [event["at"] for event in found["events"] if event["kind"] == "heal"]
            if found["name"] == phase and faults and heals:
                return faults[0], heals[0]
    return None


def _windows(stream: Mapping[str, Any]) -> Iterator[tuple[float, list[Mapping[str, Any]]]]:
    seconds = stream["seconds"]
    for start in range(0, len(seconds), WINDOW):
        window = seconds[start : start + WINDOW]
        yield start + len(window) / 2, window


def _goodput(stream: Mapping[str, Any]) -> list[Point]:
    return [
        (middle, sum(second["good"] for second in window) / len(window))
        for middle, window in _windows(stream)
    ]


def _offered(stream: _Stream) -> Iterator[Chart]:
    """Yield throughput against offered load, where what is offered changes by itself."""
    if any("limit" not in figures and _grows(figures) for figures in stream.figures()):
        yield Chart(
            f"Good answers against requests offered: {stream.title}",
            f"Each point {WINDOW} s. On the diagonal every request is answered well.",
            "requests offered per s",
            "good answers per s",
            stream.lines(_against_offered),
        )


def _against_offered(stream: Mapping[str, Any]) -> list[Point]:
    points = [
        (
            sum(second["offered"] for second in window) / len(window),
            sum(second["good"] for second in window) / len(window),
        )
        for _, window in _windows(stream)
    ]
    return sorted(point for point in points if point[0])


def _grows(stream: Mapping[str, Any]) -> bool:
    offered = [
        sum(second["offered"] for second in window)
        for _, window in _windows(stream)
        if sum(second["offered"] for second in window)
    ]
    return len(offered) > 2 and max(offered[:-1]) > 1.5 * offered[0]


def _over_time(figure: str) -> Callable[[Mapping[str, Any]], list[Point]]:
    return lambda stream: [(second["at"], second[figure] or None) for second in stream["seconds"]]


def _percentiles(stream: Mapping[str, Any]) -> list[Point]:
    latency = stream["summary"]["latency"]
    if not latency:
        return []
    return [(index, latency[name] or None) for index, name in enumerate(_SHARES)]


def _errors(stream: _Stream) -> Iterator[Chart]:
    classes = {name for figures in stream.figures() for name in figures["summary"]["errors"]}
    for name in sorted(classes):
        yield Chart(
            f"Failures, {name}: {stream.title}",
            f"Over {WINDOW} s each, when they ended.",
            "seconds",
            "per s",
            stream.lines(_failed(name)),
            band=stream.band,
            band_label=HANGS,
        )


def _failed(name: str) -> Callable[[Mapping[str, Any]], list[Point]]:
    def points(stream: Mapping[str, Any]) -> list[Point]:
        if name not in stream["summary"]["errors"]:
            return []
        return [
            (middle, sum(second["errors"].get(name, 0) for second in window) / len(window))
            for middle, window in _windows(stream)
        ]

    return points


def _server_charts(typical: Typical) -> Iterator[Chart]:
    band = _run_band(typical)
    for title, hint, unit, figure in _OVER_TIME:
        lines = _timelines(typical, lambda row: row["at"], figure)
        yield Chart(title, hint, "seconds", unit, lines, band=band, band_label=HANGS)
    for title, unit, figure in _AGAINST_CLIENTS:
        yield Chart(
            title,
            "Clients that wait: the queue at that moment. Flat is good.",
            "clients that wait",
            unit,
            _timelines(typical, lambda row: row.get("open"), figure, by_x=True),
        )


_OVER_TIME: tuple[tuple[str, str, str, Figure], ...] = (
    ("Busy workers", "Requests that a worker serves now, waiting or not.", "workers", busy),
    ("Holds", "Clients parked at the hub.", "clients", lambda row: row.get("held")),
    (
        "Announcements not yet ended",
        "The queue, by the rows.",
        "announcements",
        lambda row: row.get("open"),
    ),
)
_AGAINST_CLIENTS: tuple[tuple[str, str, Figure], ...] = (
    ("Memory against clients that wait", "MB", lambda row: row.get("serving_memory")),
    (
        "Database connections against clients that wait",
        "connections",
        lambda row: row.get("connections"),
    ),
)


def _run_band(typical: Typical) -> tuple[float, float] | None:
    """Return the outage in seconds of the run, whose timeline begins before its phases."""
    for _, run in typical:
        for phase in run.get("phases", ()):
            if band := _band(typical, phase["name"]):
                return band[0] + phase["start"], band[1] + phase["start"]
    return None


def _timelines(
    typical: Typical,
    x: Figure,
    y: Figure,
    *,
    by_x: bool = False,
) -> tuple[Line, ...]:
    lines = []
    for group, run in typical:
        pairs = [(x(row), y(row)) for row in run.get("timeline", ())]
        points = [(at, value) for at, value in pairs if at is not None and value is not None]
        lines.append(
            Line(group.strategy, group.family, tuple(_envelope(points) if by_x else points))
        )
    return tuple(line for line in lines if any(value for _, value in line.points))


def _envelope(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the highest y at each x, x in at most 40 steps: one line instead of a cloud."""
    if not points:
        return []
    step = max(math.ceil(max(x for x, _ in points) / 40), 1)
    highest: dict[float, float] = {}
    for x, y in points:
        at = x // step * step
        highest[at] = max(highest.get(at, 0), y)
    return sorted(highest.items())
