"""The demo's chart: how fast other pages answered, with the outage shaded. An SVG file."""

import math
from collections.abc import Mapping, Sequence

from reportlab.graphics import renderSVG
from reportlab.graphics.charts.lineplots import LinePlot
from reportlab.graphics.shapes import Drawing, Rect, String
from reportlab.lib.colors import HexColor

Point = tuple[float, float]  # seconds since the beginning, seconds for an answer; inf: none came

WIDTH, HEIGHT = 760, 320
# From a fast page to the longest that a client waits, each step ten times the one before.
TICKS = {0.001: "1 ms", 0.01: "10 ms", 0.1: "0.1 s", 1.0: "1 s", 10.0: "10 s", 100.0: "no answer"}
# One that stands still and one that doesn't: told apart by their dashes, too, and by their names.
STYLES = ((HexColor("#d55e00"), (6, 4)), (HexColor("#0072b2"), None))
SHADE = HexColor("#dddddd")


def chart(lines: Mapping[str, Sequence[Point]], band: tuple[float, float]) -> str:
    """Return the chart: a line by name, the band shaded."""
    plot = LinePlot()
    plot.x, plot.y, plot.width, plot.height = 76, 36, 554, 250
    plot.data = [[(at, _height(value)) for at, value in points] for points in lines.values()]
    end = max(at for points in lines.values() for at, _ in points) or 1.0
    seconds, answers = plot.xValueAxis, plot.yValueAxis
    seconds.valueMin, seconds.valueMax, seconds.labelTextFormat = 0, end, "%d s"
    seconds.valueStep = 10 if end > 30 else 5
    answers.valueSteps, answers.labelTextFormat = [*map(_height, TICKS)], [*TICKS.values()]
    answers.valueMin, answers.valueMax = _height(0), _height(math.inf)
    answers.labels.dx = -12  # a browser's letters may be wider than those that were measured
    answers.visibleGrid, answers.gridStrokeColor = True, SHADE
    left, right = (plot.x + at * plot.width / end for at in band)
    drawing = Drawing(WIDTH, HEIGHT)
    drawing.add(Rect(0, 0, WIDTH, HEIGHT, fillColor=HexColor("#ffffff"), strokeColor=None))
    drawing.add(Rect(left, plot.y, right - left, plot.height, fillColor=SHADE, strokeColor=None))
    drawing.add(String((left + right) / 2, 270, "the carrier hangs", textAnchor="middle"))
    drawing.add(String(plot.x, 302, "Other pages answer in"))
    for number, (name, (colour, dashes)) in enumerate(zip(lines, STYLES, strict=False)):
        line = plot.lines[number]
        line.strokeColor, line.strokeDashArray, line.strokeWidth = colour, dashes, 2
        drawing.add(String(638, 276 - 16 * number, name, fillColor=colour))
    drawing.add(plot)
    return str(renderSVG.drawToString(drawing))


def _height(value: float) -> float:
    return math.log10(min(max(value, min(TICKS)), max(TICKS)))
