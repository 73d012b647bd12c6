"""Pictures show what was measured, and nothing between."""

import re

import pytest

from loadtests.charts import Chart, Line
from loadtests.pictures import draw
from loadtests.tests.bench_results import HELD, WAITS

BLUE = "#123456"


@pytest.mark.parametrize(("second", "pieces"), [(1.0, 1), (None, 2)])
def test_where_nothing_was_answered_there_is_a_gap(tmp_path, second, pieces):
    points = ((0, 1.0), (1, 1.0), (2, second), (3, 1.0), (4, 1.0))
    chart = Chart("Canary", "seconds", "seconds", (Line("a", HELD, points),))
    draw([[chart]], {"a": BLUE}, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    lines = re.findall(rf'<path d="([^"]*)"[^>]*style="fill: none; stroke: {BLUE}', text)
    assert max(line.count("M") for line in lines) == pieces


def test_charts_of_one_row_have_one_scale_and_one_legend(tmp_path):
    small, large = (
        Chart(name, "seconds", "per s", (Line("a", HELD, ((0, high), (1, high))),))
        for name, high in (("small", 1.0), ("large", 100.0))
    )
    draw([[small, large]], {"a": BLUE}, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert text.count('id="axes_') == 2
    # Only the left one has labels, and they are those of the larger: from 0 to 100.
    assert text.count("<!-- 0 -->") == text.count("<!-- 100 -->") == 1
    assert text.count("<!-- a -->") == 1


def named(text):
    return re.findall(r"<!-- (\w+(?:: no good answer)?) -->", text)


def test_a_strategy_without_a_good_answer_is_named_and_says_so(tmp_path):
    answers, none = ((0, 1.0), (40, 1.0)), ((0, None), (90, None))
    lines = (Line("b", WAITS, none), Line("a", HELD, answers), Line("unmeasured", WAITS, ()))
    palette = dict.fromkeys(("a", "b", "unmeasured"), BLUE)
    chart = Chart("Canary", "x", "y", lines)
    draw([[chart]], palette, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert [name for name in named(text) if name[0] in "abu"] == ["b: no good answer", "a"]
    assert "<!-- 60 -->" not in text  # the scale is that of the lines


def test_a_strategy_that_has_a_line_in_another_chart_is_named_once(tmp_path):
    points = ((0, None), (1, None)), ((0, 1.0), (1, 1.0))
    rows = [[Chart("Canary", "x", "y", (Line("b", WAITS, each),))] for each in points]
    for order in (rows, rows[::-1]):
        draw(order, {"b": BLUE}, tmp_path / "a.svg")
        assert [name for name in named((tmp_path / "a.svg").read_text()) if "b" in name] == ["b"]
