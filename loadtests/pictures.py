"""Charts as SVG files; the same data make the same file."""

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from loadtests.charts import Chart

HELD = "is held by a front"
NONE = ": no good answer"
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


def draw(rows: Sequence[Sequence[Chart]], colours: Mapping[str, str], target: Path) -> None:
    """Draw charts below and beside one another; those of a row have one scale."""
    # Not above: `--help` and `list` work with the packages of `make run` alone.
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    size = (8, 3.6) if len(rows) == 1 else (10, 2 * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(rows), len(rows[0]), sharey="row", squeeze=False)
    lines: dict[str, Any] = {}
    for axes, chart in zip(grid.flat, chain(*rows), strict=True):
        _plot(axes, chart, colours)
        axes.set_title(chart.title, fontsize=10 if len(rows) == 1 else 8, loc="left")
        handles, names = axes.get_legend_handles_labels()
        lines |= dict(zip(names, handles, strict=True))
    for axes in grid.flat:  # when all of a row's lines are there
        if axes.get_yscale() == "linear":
            axes.set_ylim(bottom=0)
    for name in list(lines):  # of one that has a line in another chart
        lines.pop(name + NONE, None)
    figure.legend(
        lines.values(), lines.keys(), loc="outside right upper", fontsize=7, frameon=False
    )
    # No date, and ids that depend on nothing else.
    with rc_context({"svg.hashsalt": "loadtests"}):
        figure.savefig(target, metadata={"Date": None}, backend="svg")


def _plot(axes: Any, chart: Chart, colours: Mapping[str, str]) -> None:
    for line in chart.lines:
        known = [y for _, y in line.points if y is not None]
        if line.points:  # none: not measured
            gaps = len(known) < len(line.points)
            axes.plot(
                [x for x, _ in line.points],
                # A gap where nothing was answered: a line through it would be made up.
                [math.nan if y is None else y for _, y in line.points],
                label=line.strategy if known else line.strategy + NONE,
                color=colours[line.strategy],
                linestyle="-" if line.family == HELD else "--",
                marker="o" if chart.ticks or gaps or len(known) < 3 else None,
                markersize=1.5 if gaps else 3,
                linewidth=1.4,
            )
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    axes.grid(alpha=0.3)
    if chart.log:
        axes.set_yscale("log")
    if chart.ticks:
        axes.set_xticks(range(len(chart.ticks)), chart.ticks)
    if chart.band:
        axes.axvspan(*chart.band, alpha=0.12, color="gray", label="the carrier hangs")
