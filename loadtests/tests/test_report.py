import copy
import json
import re

import pytest

from loadtests.aggregate import Spread, groups
from loadtests.report import content, write_report
from loadtests.tables import littles_table, number, percent, server_table, spread, stream_tables
from loadtests.tests.bench_results import HELD, WAITS, missing, results, run
from loadtests.verdict import cautions, verdict


@pytest.fixture
def bench():
    return results(
        run("nginx-accel", HELD, 2.0),
        run("uwsgi-prefork", WAITS, 20.0, failed=30, said="no reload of the app: <none>"),
        missing("cheroot", WAITS, "ContractError: answered 500"),
    )


def test_the_table_has_median_and_range():
    tripled = [run("nginx-accel", HELD, s, repeat=n) for n, s in enumerate((2.0, 4.0, 5.0), 1)]
    [table] = stream_tables(groups([results(*tripled)]))
    row = dict(zip(table.head, table.rows[0], strict=True))
    assert row["p50"] == "4 (2 to 5)"
    assert row["good per s"] == "2.50 (2 to 5)"
    assert row["of possible"] == "50.0 % (40.0 % to 100.0 %)"


def test_a_missing_run_is_missing_and_not_zero(bench):
    [table] = stream_tables(groups([bench]))
    rows = {row[0]: row[1:] for row in table.rows}
    assert set(rows["cheroot"]) == {"-"}
    assert any("ContractError" in note for note in content([bench]).sections[0].notes)


def test_an_invalid_run_counts_only_where_there_is_no_valid_one():
    bad = run("nginx-accel", HELD, 9.0, status="invalid")
    [group] = groups([results(bad, run("nginx-accel", HELD, 2.0, repeat=2))])
    assert [found["repeat"] for found in group.measured()] == [2]
    [alone] = groups([results(bad)])
    assert len(alone.measured()) == 1
    assert "invalid" in alone.notes[0]


def test_an_invalid_run_says_which_of_its_phases_was_late():
    bad = run("nginx-accel", HELD, 2.0, status="invalid")
    [phase] = bad["phases"]
    late = copy.deepcopy(phase) | {"name": "creates"}
    late["streams"]["labels"]["summary"]["late_sends"] = 10
    bad["phases"] = [phase, late]
    [group] = groups([results(bad)])
    assert group.notes[0].endswith("late were creates (25.0%); the other phases were sent on time")


def test_the_verdict_names_best_and_worst(bench):
    said = verdict("Talk", groups([bench]))
    assert said.startswith("Talk: nginx-accel gave 5 of 5 possible good answers")
    assert "uwsgi-prefork" in said
    assert "75.0 % failed" in said


def test_the_verdict_is_of_what_tells_the_strategies_apart():
    """All answered the easy phase: who is best was decided in the hard one."""
    good, bad = run("a", HELD, 2.0), run("b", HELD, 2.0)
    for made, hard in ((good, 2.0), (bad, 4.0)):
        [phase] = copy.deepcopy(run("any", HELD, hard)["phases"])
        made["phases"].append(phase | {"name": "hard"})
    said = verdict("Steady", groups([results(bad, good)]))
    assert said.startswith("Steady (hard, labels): a gave 5 of")
    assert "; b gave 2.50 of" in said


def test_the_verdict_of_strategies_that_are_alike_is_of_their_first_stream():
    said = verdict("Talk", groups([results(run("a", HELD, 2.0), run("b", HELD, 2.0))]))
    assert said.startswith("Talk: ")


def test_the_reader_is_warned():
    runs = [run("a", HELD, 2.0, others=1.3), run("b", HELD, 2.0, status="invalid")]
    found = results(*runs, note="Others worked here.")
    said = " ".join(cautions([found], groups([found])))
    assert "Others worked here." in said
    assert "n = 1" in said
    assert "1.3 cores" in said
    assert "1 runs are invalid" in said


def test_figures_of_a_full_machine_say_so():
    full, idle = run("a", HELD, 2.0), run("b", HELD, 2.0)
    full["timeline"] = [row | {"cpu": {"web": 1.9}} for row in full["timeline"]]
    found = results(full, idle)
    said = " ".join(cautions([found], groups([found])))
    assert "processors were full most of the time: 1 of talk." in said


def test_a_quiet_bench_with_repeats_needs_no_warning():
    found = results(*(run("a", HELD, 2.0, repeat=repeat) for repeat in (1, 2)))
    assert cautions([found], groups([found])) == []


def test_what_servers_took_is_their_serving_side(bench):
    table = server_table(groups([bench]))
    row = dict(zip(table.head, table.rows[0], strict=True))
    assert row["serving cores, mean"] == "0.60"  # web and hub, not the worker
    assert row["serving MB, peak"] == "104"
    assert row["busy workers, peak"] == "2"  # who waits is one of those who serve


def test_the_page_needs_nothing_from_outside(bench, tmp_path):
    page = write_report([bench], tmp_path).read_text()
    outside = re.findall(r"(?:src|href)=\"?([^\"\s>]+)|url\(([^)]+)\)|@import", page)
    assert outside == []
    assert page.count("<script") == 3


def test_nothing_that_was_measured_becomes_markup(bench, tmp_path):
    bench["runs"][2]["reason"] = "</script><script>alert(1)</script>"
    page = write_report([bench], tmp_path).read_text()
    assert "<script>alert" not in page
    assert "<none>" not in page


def test_the_pages_data_are_whole(bench, tmp_path):
    page = write_report([bench], tmp_path).read_text()
    [text] = re.findall(r'id="data">(.*?)</script>', page, re.DOTALL)
    data = json.loads(text)
    titles = [chart["title"] for chart in data["charts"]]
    assert len(data["charts"]) == page.count('class="chart"')
    assert any("Memory" in title for title in titles)
    assert {"nginx-accel", "uwsgi-prefork"} <= set(data["colours"])
    shaded = [chart for chart in data["charts"] if chart["band"]]
    assert shaded[0]["band"] == [1.0, 3.0]


def test_markdown_says_the_same_and_its_pictures_are_there(bench, tmp_path):
    write_report([bench], tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert "| nginx-accel | 5 | 100.0 % |" in text
    pictures = re.findall(r"\]\((pictures/[^)]+)\)", text)
    assert pictures
    assert all((tmp_path / picture).read_text().startswith("<?xml") for picture in pictures)


def test_a_report_written_again_is_the_same_files(bench, tmp_path):
    folders = [tmp_path / name for name in ("once", "again")]
    for folder in folders:
        write_report([bench], folder)
    first, second = (
        {path.name: path.read_bytes() for path in folder.rglob("*.*")} for folder in folders
    )
    assert first == second


def test_several_benches_make_one_report(bench):
    other = results(run("bjoern", WAITS, 3.0))
    assert {group.strategy for group in groups([bench, other])} >= {"bjoern", "nginx-accel"}
    assert len(content([bench, other]).sections) == 1


def test_equal_workers_and_equal_memory_are_two_tables(bench, tmp_path):
    fitted = results(run("nginx-accel", HELD, 4.0)) | {"sizing": "as many as fit into 600 MB"}
    sections = content([bench, fitted]).sections
    assert [section.title.rpartition(" (")[2] for section in sections] == [
        "5 web processes)",
        "as many as fit into 600 MB)",
    ]
    assert len({section.name for section in sections}) == 2
    assert sections[1].tables[0].rows[0][:2] == ("nginx-accel", "2.50")
    assert (
        dict(content([bench, fitted]).card)["Size"] == "5 web processes; as many as fit into 600 MB"
    )


def test_a_quick_form_is_not_mixed_with_the_full_one():
    quick = results(run("a", HELD, 8.0)) | {"began": "2026-01-01 00:00 UTC", "quick": True}
    quick["scenarios"] = {"talk": quick["scenarios"]["talk"] | {"parameters": {"requests": 1}}}
    [section] = content([results(run("a", HELD, 2.0)), quick]).sections
    assert section.tables[0].rows[0][:2] == ("a", "5")


def test_a_form_that_never_ran_makes_nothing_incomparable():
    ended = results() | {"began": "2026-02-02 00:00 UTC"}
    ended["scenarios"] = {"talk": ended["scenarios"]["talk"] | {"parameters": {"requests": 1}}}
    [section] = content([results(run("a", HELD, 2.0)), ended]).sections
    assert section.tables[0].rows[0][:2] == ("a", "5")


def test_the_card_says_of_each_part_what_differs():
    first, second = (
        results(run(name, HELD, 2.0)) | {"began": began, "repeats": repeats}
        for name, began, repeats in (("a", "2026-01-01", 3), ("b", "2026-01-02", 1))
    )
    card = dict(content([second, first]).card)
    assert "3 of each" in card["Run 2026-01-01"]
    assert "1 of each" in card["Run 2026-01-02"]
    assert "Repeats" not in card


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0"),
        (0.0123, "0.012"),
        (0.5, "0.50"),
        (12.345, "12.35"),
        (-8.37, "-8.37"),
        (1234.5, "1,234"),
    ],
)
def test_numbers_have_the_digits_that_matter(value, said):
    assert number(value) == said


@pytest.mark.parametrize(("value", "said"), [(0, "0 %"), (0.0001, "<0.1 %"), (0.96, "96.0 %")])
def test_a_few_failures_are_not_rounded_to_none(value, said):
    assert percent(value) == said


def test_a_figure_that_is_not_there_is_a_dash():
    assert spread(Spread.of([None, None])) == "-"
    assert spread(Spread.of([3.0, None])) == "3"


def test_littles_law_says_nothing_of_waiting_where_some_were_put_off():
    held, ended = run("a", HELD, 2.0), run("b", HELD, 2.0)
    for made, errors in ((held, {}), (ended, {"http 202": 9})):
        stream = made["phases"][0]["streams"]["labels"]
        stream["littles_law"] = {"predicted": 10.0, "measured": 9.5}
        stream["summary"]["errors"] = errors
    table = littles_table(groups([results(held, ended)]))
    assert table is not None
    assert [row[4] for row in table.rows] == ["-0.50", "-"]


def test_a_label_that_was_bought_twice_is_the_first_thing_said(bench):
    wrong = run("cheroot", WAITS, 2.0)
    wrong["books"]["doubled"] = 3
    bad = results(wrong) | {"note": "a note"}
    assert cautions([bad], groups([bad]))[0] == "WRONG: cheroot bought 3 labels of talk twice."
    assert not any("WRONG" in said for said in cautions([bench], groups([bench])))
