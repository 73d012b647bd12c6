"""Pictures show what was measured, and nothing between."""

import re

import pytest

from loadtests.charts import Chart, Line
from loadtests.pictures import draw
from loadtests.tests.bench_results import HELD

BLUE = "#123456"


@pytest.mark.parametrize(("second", "pieces"), [(1.0, 1), (None, 2)])
def test_where_nothing_was_answered_there_is_a_gap(tmp_path, second, pieces):
    points = ((0, 1.0), (1, 1.0), (2, second), (3, 1.0), (4, 1.0))
    chart = Chart("Canary", "seconds", "seconds", (Line("a", HELD, points),))
    draw(chart, {"a": BLUE}, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    lines = re.findall(rf'<path d="([^"]*)"[^>]*style="fill: none; stroke: {BLUE}', text)
    assert max(line.count("M") for line in lines) == pieces
