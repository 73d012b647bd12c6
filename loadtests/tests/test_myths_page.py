import pytest

from loadtests import myths_page
from loadtests.myths import WAYS


def test_every_way_that_is_run_is_shown_and_no_other():
    shown = {way for ways in myths_page.MYTHS.values() for way in ways}
    assert shown == {way.name for way in WAYS}


def test_what_was_not_run_is_not_measured():
    rows = list(myths_page.table(None, "myth-time-out"))[2:]
    assert all(row.count("not measured") == len(myths_page.HEAD) - 1 for row in rows)
    assert "Not measured yet" in next(myths_page.card(None))


def made(**changes):
    latency = {"p50": 10.0, "p99": 15.0, "maximum": 16.0}
    labels = {"goodput": 2.25, "error_share": 0.0, "latency": latency}
    run = {
        "way": myths_page.BASE,
        "clients": 40,
        "limit": 20.0,
        "streams": {
            "labels": labels | changes.pop("labels", {}),
            "cheap reads": {"asked": 100, "good": 21, "latency": latency}
            | changes.pop("cheap", {}),
        },
        "threads": 7,
        "memory": 228.8,
        "validity": {"reasons": []},
    }
    rows = list(myths_page.table({"runs": [run | changes]}, "myth-celery-get"))
    cells = [cell.strip() for cell in rows[2].strip("|").split("|")]
    return dict(zip(myths_page.HEAD, cells, strict=True))


def test_a_row_says_what_clients_saw():
    row = made()
    assert row["labels per s"] == "2.25"
    assert row["of the limit"] == "11.2 %"
    assert row["cheap reads, p99"] == "15 s, 79 of 100 unanswered"


@pytest.mark.parametrize(
    ("changes", "column", "said"),
    [
        ({"labels": {"latency": None}}, "wait, max", "no answer"),
        (
            {"cheap": {"good": 0, "latency": None}},
            "cheap reads, p99",
            "no answer, 100 of 100 unanswered",
        ),
        ({"cheap": {"good": 100}}, "cheap reads, p99", "15 s"),
        ({"threads": None}, "threads", "not measured"),
        ({"labels": {"error_share": None}}, "failed", "not measured"),
        ({"validity": {"reasons": ["late"]}}, "labels per s", "2.25 †"),
    ],
)
def test_what_is_missing_or_doubtful_says_so(changes, column, said):
    assert made(**changes)[column] == said
