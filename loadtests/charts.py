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

Point = tuple[float, float | None]


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


Typical = Sequence[tuple[Group, Run]]


def _stream_charts(typical: Typical) -> Iterator[Chart]:
    names = dict.fromkeys(
        (phase, stream) for _, run in typical for phase, stream, _ in streams(run)
    )
    for phase, stream in names:
        lined = _lines(typical, phase, stream)
        band = _band(typical, phase)
        extra = {"band": band, "band_label": "the carrier hangs"} if band else {}
        title = stream if phase == stream else f"{phase}: {stream}"
        if stream == "canary":
            yield Chart(
                "Canary: what a request that needs no carrier takes",
                "Median of each second; a line that ends got no answers any more.",
                "seconds",
                "seconds, log",
                lined(_over_time("p50")),
                log=True,
                **extra,
            )
        else:
            yield Chart(
                f"Good answers per second: {title}",
                f"Over {WINDOW} s each.",
                "seconds",
                "good answers per s",
                lined(_goodput),
                **extra,
            )
            yield from _offered(title, typical, lined)
        yield Chart(
            f"Latency: {title}",
            "How long clients waited for good answers: so many waited no longer than that. From "
            "the intended start.",
            "share of the answers",
            "seconds, log",
            lined(_percentiles),
            log=True,
            ticks=_SHARE_LABELS,
        )
        yield from _error_charts(title, typical, lined, extra)


def _lines(
    typical: Typical, phase: str, stream: str
) -> Callable[[Callable[[Mapping[str, Any]], list[Point]]], tuple[Line, ...]]:
    def lined(points: Callable[[Mapping[str, Any]], list[Point]]) -> tuple[Line, ...]:
        return tuple(
            Line(group.strategy, group.family, tuple(points(found)))
            for group, run in typical
            for p, s, found in streams(run)
            if (p, s) == (phase, stream)
        )

    return lined


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


def _offered(
    title: str, typical: Typical, lined: Callable[..., tuple[Line, ...]]
) -> Iterator[Chart]:
    """Yield throughput against offered load, where what is offered changes by itself."""

    def points(stream: Mapping[str, Any]) -> list[Point]:
        found = [
            (
                sum(second["offered"] for second in window) / len(window),
                sum(second["good"] for second in window) / len(window),
            )
            for _, window in _windows(stream)
        ]
        return sorted(point for point in found if point[0])

    ramps = any(
        "limit" not in stream and _grows(stream)
        for _, run in typical
        for _, _, stream in streams(run)
    )
    if ramps:
        yield Chart(
            f"Good answers against requests offered: {title}",
            f"Each point {WINDOW} s. On the diagonal every request is answered well.",
            "requests offered per s",
            "good answers per s",
            lined(points),
        )


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


def _error_charts(
    title: str,
    typical: Typical,
    lined: Callable[..., tuple[Line, ...]],
    extra: dict[str, Any],
) -> Iterator[Chart]:
    classes = sorted(
        {
            name
            for _, run in typical
            for _, _, stream in streams(run)
            for name in stream["summary"]["errors"]
        }
    )
    for name in classes:

        def failed(stream: Mapping[str, Any], name: str = name) -> list[Point]:
            if name not in stream["summary"]["errors"]:
                return []
            return [
                (middle, sum(second["errors"].get(name, 0) for second in window) / len(window))
                for middle, window in _windows(stream)
            ]

        yield Chart(
            f"Failures, {name}: {title}",
            f"Over {WINDOW} s each, when they ended.",
            "seconds",
            "per s",
            lined(failed),
            **extra,
        )


def _server_charts(typical: Typical) -> Iterator[Chart]:
    band = _run_band(typical)
    extra: dict[str, Any] = {"band": band, "band_label": "the carrier hangs"} if band else {}
    over_time = [
        ("Busy workers", "Requests that a worker serves now, waiting or not.", "workers", busy),
        ("Holds", "Clients parked at the hub.", "clients", lambda row: row.get("held")),
        (
            "Announcements not yet ended",
            "The queue, by the rows.",
            "announcements",
            lambda row: row.get("open"),
        ),
    ]
    for title, hint, unit, figure in over_time:
        yield Chart(
            title,
            hint,
            "seconds",
            unit,
            _timelines(typical, lambda row: row["at"], figure),
            **extra,
        )
    for title, unit, figure in (
        ("Memory against clients that wait", "MB", lambda row: row.get("serving_memory")),
        ("Database connections against clients that wait", "connections", _connections),
    ):
        yield Chart(
            title,
            "Clients that wait: the queue at that moment. Flat is good.",
            "clients that wait",
            unit,
            _timelines(typical, lambda row: row.get("open"), figure, by_x=True),
        )


def _connections(row: Mapping[str, Any]) -> float | None:
    return row.get("connections")


def _run_band(typical: Typical) -> tuple[float, float] | None:
    """Return the outage in seconds of the run, whose timeline begins before its phases."""
    for _, run in typical:
        for phase in run.get("phases", ()):
            if band := _band(typical, phase["name"]):
                return band[0] + phase["start"], band[1] + phase["start"]
    return None


def _timelines(
    typical: Typical,
    x: Callable[[Mapping[str, Any]], float | None],
    y: Callable[[Mapping[str, Any]], float | None],
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
