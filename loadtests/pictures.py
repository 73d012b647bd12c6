"""Charts as SVG files; the same data make the same file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from loadtests.charts import Chart

HELD = "is held by a front"
# Of middle lightness: they stand on white and on black. Held strategies are cool, solid lines,
# waiting ones warm, dashed.
_COOL = ("#0072b2", "#009e73", "#56b4e9", "#5b6ee1", "#2e9e3e", "#00a5a5", "#4f8f8b")
_WARM = (
    *("#d55e00", "#e69f00", "#cc79a7", "#c0392b", "#a0693d"),
    *("#9467bd", "#e377c2", "#b8a000", "#ff7f50", "#8a8a8a"),
)


def colours(families: Mapping[str, str]) -> dict[str, str]:
    """Return a colour for each strategy, the same in all charts: by the order of their names."""
    chosen: dict[str, str] = {}
    for held, palette in ((True, _COOL), (False, _WARM)):
        names = sorted(name for name, family in families.items() if (family == HELD) == held)
        chosen |= {name: palette[index % len(palette)] for index, name in enumerate(names)}
    return chosen


def draw(chart: Chart, colours: Mapping[str, str], target: Path) -> None:
    """Draw one chart."""
    # Not above: `--help` and `list` work with the packages of `make run` alone.
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes = figure.subplots()
    for line in chart.lines:
        known = [y for _, y in line.points if y is not None]
        if known:
            gaps = len(known) < len(line.points)
            axes.plot(
                [x for x, _ in line.points],
                # A gap where nothing was answered: a line through it would be made up.
                [math.nan if y is None else y for _, y in line.points],
                label=line.strategy,
                color=colours[line.strategy],
                linestyle="-" if line.family == HELD else "--",
                marker="o" if chart.ticks or gaps or len(known) < 3 else None,
                markersize=1.5 if gaps else 3,
                linewidth=1.4,
            )
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    axes.set_title(chart.title, fontsize=10, loc="left")
    axes.grid(alpha=0.3)
    if chart.log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if chart.ticks:
        axes.set_xticks(range(len(chart.ticks)), chart.ticks)
    if chart.band:
        axes.axvspan(*chart.band, alpha=0.12, color="gray", label="the carrier hangs")
    figure.legend(loc="outside right upper", fontsize=7, frameon=False)
    # No date, and ids that depend on nothing else.
    with rc_context({"svg.hashsalt": "loadtests"}):
        figure.savefig(target, metadata={"Date": None}, backend="svg")
