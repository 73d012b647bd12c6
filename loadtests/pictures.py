"""Charts as SVG files, for Markdown; the same charts that the page draws."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from loadtests.charts import Chart
from loadtests.palette import HELD


def draw(chart: Chart, colours: Mapping[str, str], target: Path) -> None:
    """Draw one chart; the same data make the same file."""
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
        axes.axvspan(*chart.band, alpha=0.12, color="gray", label=chart.band_label)
    figure.legend(loc="outside right upper", fontsize=7, frameon=False)
    # No date, and ids that depend on nothing else: a report written again is the same file.
    with rc_context({"svg.hashsalt": "loadtests"}):
        figure.savefig(target, metadata={"Date": None}, backend="svg")
