"""The demo's chart: how fast other pages answered, with the outage shaded. An SVG file."""

import math
from collections.abc import Mapping, Sequence

Point = tuple[float, float]  # seconds since the beginning, seconds for an answer; inf: none came

WIDTH, HEIGHT = 760, 320
LEFT, RIGHT, TOP, BOTTOM = 76, 130, 34, 36
# From a fast page to the longest that a client waits, each step ten times the one before.
SHORTEST, LONGEST = 0.001, 100.0
TICKS = {0.001: "1 ms", 0.01: "10 ms", 0.1: "0.1 s", 1.0: "1 s", 10.0: "10 s", 100.0: "no answer"}
# One that stands still and one that doesn't: told apart by their dashes, too, and by their names.
STYLES = (("#d55e00", "6 4"), ("#0072b2", "none"))


def chart(lines: Mapping[str, Sequence[Point]], band: tuple[float, float]) -> str:
    """Return the chart: a line by name, the band shaded."""
    end = max(at for points in lines.values() for at, _ in points) or 1.0
    across = (WIDTH - LEFT - RIGHT) / end
    floor = HEIGHT - BOTTOM

    def x(at: float) -> float:
        return LEFT + at * across

    def y(value: float) -> float:
        share = math.log10(min(max(value, SHORTEST), LONGEST) / SHORTEST) / math.log10(
            LONGEST / SHORTEST
        )
        return floor - share * (floor - TOP)

    drawn = [
        _rectangle(x(band[0]), TOP, x(band[1]) - x(band[0]), floor - TOP),
        _text(x(sum(band) / 2), TOP + 16, "the carrier hangs", "middle"),
        _text(LEFT, 18, "Other pages answer in"),
        *(
            _line(LEFT, y(value), WIDTH - RIGHT, y(value))
            + _text(LEFT - 8, y(value) + 4, name, "end")
            for value, name in TICKS.items()
        ),
        *(
            _text(x(at), floor + 18, f"{at} s", "middle")
            for at in range(0, int(end) + 1, 10 if end > 30 else 5)
        ),
    ]
    taken: list[float] = []  # a name moves down where another one stands
    for (name, points), (colour, dashes) in zip(lines.items(), STYLES, strict=False):
        path = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in points)
        drawn.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{dashes}"/>'
        )
        at = y(points[-1][1]) + 4
        taken.append(at + 16 if any(abs(at - other) < 14 for other in taken) else at)
        drawn.append(_text(WIDTH - RIGHT + 8, taken[-1], name, colour=colour))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
    head += f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">'
    ground = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    return "\n".join([head, ground, *drawn, "</svg>", ""])


def _rectangle(x: float, y: float, width: float, height: float) -> str:
    return (
        f'<rect class="outage" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        'fill="#777" fill-opacity="0.15"/>'
    )


def _line(x: float, y: float, to_x: float, to_y: float) -> str:
    return f'<line x1="{x}" y1="{y:.1f}" x2="{to_x}" y2="{to_y:.1f}" stroke="#ddd"/>'


def _text(x: float, y: float, words: str, anchor: str = "start", colour: str = "#333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'
