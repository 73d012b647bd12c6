import copy
import math
import re

import pytest

from loadtests.aggregate import Spread, comparable, groups
from loadtests.cautions import cautions
from loadtests.charts import ChartError, chart
from loadtests.comparison import _with_failed, seconds
from loadtests.report import write_report
from loadtests.tables import (
    errors_table,
    last_ended,
    number,
    percent,
    process_table,
    server_table,
    slots,
    spread,
    stream_tables,
)
from loadtests.tests.bench_results import HELD, WAITS, missing, results, run


@pytest.fixture
def bench():
    return results(
        run("nginx-accel", HELD, 2.0),
        run("uwsgi-prefork", WAITS, 20.0, failed=30, said="no reload of the app: <none>"),
        missing("cheroot", WAITS, "ContractError: answered 500"),
    )


def written(benches, folder):
    return write_report(benches, folder).read_text()


def test_the_table_has_median_and_range():
    tripled = [run("nginx-accel", HELD, s, repeat=n) for n, s in enumerate((2.0, 4.0, 5.0), 1)]
    [table] = stream_tables(groups([results(*tripled)]))
    row = dict(zip(table.head, table.rows[0], strict=True))
    assert row["p50"] == "4 (2 to 5)"
    assert row["good per s"] == "2.50 (2 to 5)"
    assert row["of possible"] == "50.0 % (40.0 % to 100.0 %)"


def test_a_missing_run_is_missing_and_not_zero(bench, tmp_path):
    [table] = stream_tables(groups([bench]))
    rows = {row[0]: row[1:] for row in table.rows}
    assert set(rows["cheroot"]) == {"-"}
    assert "ContractError" in written([bench], tmp_path)


def test_failures_are_those_of_one_run_and_a_rare_class_is_seen():
    several = [run("a", HELD, 2.0, repeat=n, failed=failed) for n, failed in enumerate((8, 0, 6))]
    several[1]["phases"][0]["streams"]["labels"]["summary"]["errors"] = {"reset": 1}
    table = errors_table(groups([results(*several, run("b", WAITS, 2.0, failed=7))]))
    assert table is not None
    assert table.head == ("strategy", "http 502", "reset")
    assert table.rows == (("a", "6 (0 to 8)", "0 (0 to 1)"), ("b", "7", "0"))
    assert table.hint.startswith("Median per run")


def test_without_a_failure_there_is_no_table_of_them_and_a_missing_run_has_none():
    assert errors_table(groups([results(run("a", HELD, 2.0))])) is None
    died = missing("cheroot", WAITS, "died")
    table = errors_table(groups([results(run("a", HELD, 2.0, failed=1), died)]))
    assert table is not None
    assert table.rows == (("a", "1"), ("cheroot", "-"))


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
    assert "processors were full most of the time: 1 of talk with a." in said


def test_a_machine_that_was_full_while_requests_were_sent_was_full():
    full = run("a", HELD, 2.0)
    full["timeline"] = [row | {"cpu": {"web": 1.9}} for row in full["timeline"]]
    full["timeline"] += [row | {"at": 100.0 + row["at"], "cpu": {}} for row in full["timeline"] * 2]
    found = results(full)
    said = " ".join(cautions([found], groups([found])))
    assert "processors were full most of the time: 1 of talk with a." in said


def test_a_quiet_bench_with_repeats_needs_no_warning():
    found = results(*(run("a", HELD, 2.0, repeat=repeat) for repeat in (1, 2)))
    assert cautions([found], groups([found])) == []


def test_what_servers_took_is_their_serving_side(bench):
    table = server_table(groups([bench]))
    row = dict(zip(table.head, table.rows[0], strict=True))
    assert row["serving cores, mean"] == "0.60"  # web and hub, not the worker
    assert "from each phase's first request to its last answer" in table.hint
    assert row["serving MB, peak"] == "104"
    assert row["busy workers, peak"] == "2"  # who waits is one of those who serve


def test_all_told_are_the_processes_that_a_deployment_needs():
    found = run("nginx-accel", HELD, 2.0)
    own = {"web": 100.0, "worker": 50.0, "postgresql": 25.0}
    found["timeline"][3] |= {"memory": own | {"simulator": 400.0}}
    found["timeline"] = [
        row | {"cpu": row["cpu"] | {"generator": 9.0}} for row in found["timeline"]
    ]
    table = server_table(groups([results(found)]))
    row = dict(zip(table.head, table.rows[0], strict=True))
    assert row["MB all told, peak"] == "175"
    assert row["cores all told, mean"] == "0.90"


def test_each_kind_of_process_is_named_but_for_load_and_carriers():
    found = run("nginx-accel", HELD, 2.0)
    found["timeline"][3] |= {"memory": {"web": 100.0, "worker": 50.0, "simulator": 400.0}}
    table = process_table(groups([results(found)]))
    row = dict(zip(table.head, table.rows[0], strict=True))
    assert (row["worker MB"], row["worker cores"], row["hub cores"]) == ("50", "0.30", "0.10")
    assert "from each phase's first request to its last answer" in table.hint
    assert not any("simulator" in head or "generator" in head for head in table.head)


@pytest.mark.parametrize(
    ("strategy", "sizes", "found"),
    [
        ("uwsgi-threads", {"WEB_WORKERS": "5", "WEB_THREADS": "40"}, 200),
        ("nginx-accel", {"WEB_WORKERS": "5"}, 10),  # two threads each
        ("asgi-hold", {"WEB_WORKERS": "2"}, 16),  # older results don't say its bound: the usual
        ("runserver", {"WEB_WORKERS": "5"}, math.inf),  # a thread for each request
    ],
)
def test_slots_are_what_serves_at_once(strategy, sizes, found):
    assert slots(run(strategy, HELD, 2.0) | {"sizes": sizes}) == found


@pytest.mark.parametrize(("open_", "seconds"), [(0, 8.5), (1, None)])
def test_the_last_one_has_ended_when_none_is_open_any_more(open_, seconds):
    found = run("nginx-accel", HELD, 2.0) | {"settled": 9.5}  # the phase began in second 1
    found["books"]["open"] = open_
    assert last_ended(found) == seconds
    assert last_ended(run("nginx-accel", HELD, 2.0)) is None  # an older result doesn't know


def test_the_report_has_tables_and_the_charts_that_the_scenario_names(bench, tmp_path):
    text = written([bench], tmp_path)
    assert "| nginx-accel | 5 | 100.0 % |" in text
    assert "| web MB |" in text
    pictures = re.findall(r"\]\((pictures/[^)]+)\)", text)
    assert len(pictures) == 1  # of the two that `talk` asks for: no canary was measured here
    assert all((tmp_path / picture).read_text().startswith("<?xml") for picture in pictures)


def test_a_list_of_charts_is_one_picture_with_a_column_for_each_variant(bench, tmp_path):
    bench["scenarios"]["own"] = bench["scenarios"]["talk"] | {"charts": [["good: labels", "busy"]]}
    bench["runs"] = [run_ | {"scenario": "own"} for run_ in bench["runs"][:2]]
    bench["runs"] += [run_ | {"variant": "off"} for run_ in bench["runs"]]
    text = written([bench], tmp_path)
    [picture] = re.findall(r"\]\((pictures/[^)]+)\)", text)
    drawn = (tmp_path / picture).read_text()
    assert drawn.count('id="axes_') == 4
    assert "<!-- Busy workers (off) -->" in drawn


def test_nothing_that_was_measured_becomes_markup(bench, tmp_path):
    bench["runs"][2]["reason"] = "</script><script>alert(1)</script>"
    text = written([bench], tmp_path)
    assert "<script>" not in text
    assert "<none>" not in text


def test_what_failed_in_a_few_of_the_runs_is_told():
    several = [run("a", HELD, 2.0, repeat=n, failed=n // 3 * 36) for n in range(5)]
    [group] = groups([results(*several)])
    cell = _with_failed("talk", "labels", lambda _: 0.012, seconds)(group)
    assert cell == "0.012 s, 0 % (0 % to 90.0 %) failed"


@pytest.mark.parametrize("wanted", ["good: labels", "failed: labels", "p50: labels"])
def test_a_streams_chart_has_a_line_each_and_shows_the_outage(bench, wanted):
    made = chart(wanted, groups([bench]))
    assert made is not None
    assert [line.strategy for line in made.lines] == ["nginx-accel", "uwsgi-prefork"]
    assert made.band == (1.0, 3.0)


def test_a_chart_of_the_servers_counts_from_the_runs_start(bench):
    made = chart("memory", groups([bench]))
    assert made is not None
    assert made.lines[0].points[0] == (0.0, 100.0)
    assert made.band == (2.0, 4.0)


def test_a_chart_by_phases_has_their_slowest_percent_and_a_gap_where_nobody_waited():
    first, then = (run("nginx-accel", HELD, seconds)["phases"][0] for seconds in (2.0, 20.0))
    [nobody] = run("nginx-accel", HELD, 2.0, failed=40)["phases"]
    phases = [first, {**then, "name": "more"}, {**nobody, "name": "all"}]
    grown = run("nginx-accel", HELD, 2.0) | {"phases": phases}
    made = chart("phases: labels", groups([results(grown)]))
    assert made is not None
    assert made.ticks == (first["name"], "more", "all")
    assert made.lines[0].points == ((0, 2.0), (1, 20.0), (2, None))


def test_a_chart_by_phases_has_no_line_of_a_strategy_that_was_not_asked():
    asked, other = run("nginx-accel", HELD, 2.0), run("uwsgi-prefork", WAITS, 2.0)
    other["phases"][0]["streams"] = {"canary": other["phases"][0]["streams"]["labels"]}
    made = chart("phases: labels", groups([results(asked, other)]))
    assert made is not None
    assert [line.strategy for line in made.lines] == ["nginx-accel"]


def test_a_chart_of_nothing_is_left_out(bench):
    assert chart("good: no such stream", groups([bench])) is None
    assert chart("busy", groups([results(missing("cheroot", WAITS, "died"))])) is None


@pytest.mark.parametrize("wanted", ["speed: labels", "busy: labels", "good"])
def test_a_chart_that_is_misspelt_is_refused(bench, wanted):
    with pytest.raises(ChartError, match="no chart"):
        chart(wanted, groups([bench]))


def test_failures_are_a_rate_over_all_classes(bench):
    made = chart("failed: labels", groups([bench]))
    assert made is not None
    failed = {line.strategy: sum(y or 0 for _, y in line.points) for line in made.lines}
    assert failed["nginx-accel"] == 0
    assert failed["uwsgi-prefork"] > 0


def test_a_report_written_again_is_the_same_files(bench, tmp_path):
    folders = [tmp_path / name for name in ("once", "again")]
    for folder in folders:
        write_report([bench], folder)
    first, second = (
        {path.name: path.read_bytes() for path in folder.rglob("*.*")} for folder in folders
    )
    assert first == second


def test_several_benches_make_one_report(bench, tmp_path):
    other = results(run("bjoern", WAITS, 3.0))
    text = written([bench, other], tmp_path)
    assert "| bjoern |" in text
    assert text.count(f"## {bench['scenarios']['talk']['title']}") == 1


def other_form(bench, *, began, **changes):
    """The same bench at another time, and something of its form."""
    facts = bench["scenarios"]["talk"] | {"parameters": changes.pop("parameters", {})}
    return bench | {"began": began, "scenarios": {"talk": facts}} | changes


@pytest.mark.parametrize(
    "changes",
    [{"parameters": {"requests": 1}}, {"sizing": "each strategy runs 3 web processes"}],
    ids=["another form", "another size"],
)
def test_runs_of_another_form_are_not_mixed_in(changes):
    older = other_form(results(run("a", HELD, 8.0)), began="2026-01-01 00:00 UTC", **changes)
    [group] = groups(comparable([results(run("a", HELD, 2.0)), older]))
    assert [one["phases"] for one in group.runs] == [run("a", HELD, 2.0)["phases"]]


def test_a_form_that_never_ran_makes_nothing_incomparable():
    ended = other_form(results(), began="2026-02-02 00:00 UTC", parameters={"requests": 1})
    [group] = groups(comparable([results(run("a", HELD, 2.0)), ended]))
    assert len(group.runs) == 1


def test_the_card_says_of_each_part_what_differs(tmp_path):
    first, second = (
        results(run(name, HELD, 2.0)) | {"began": began, "repeats": repeats}
        for name, began, repeats in (("a", "2026-01-01", 3), ("b", "2026-01-02", 1))
    )
    text = written([second, first], tmp_path)
    assert re.search(r"\| Run 2026-01-01 \| .*3 of each", text)
    assert re.search(r"\| Run 2026-01-02 \| .*1 of each", text)


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


def test_a_label_that_was_bought_twice_is_the_first_thing_said(bench):
    wrong = run("cheroot", WAITS, 2.0)
    wrong["books"]["doubled"] = 3
    bad = results(wrong) | {"note": "a note"}
    assert cautions([bad], groups([bad]))[0] == "WRONG: cheroot bought 3 labels of talk twice."
    assert not any("WRONG" in said for said in cautions([bench], groups([bench])))


def test_columns_of_the_carriers_own_time_are_there_where_it_is_known():
    made = run("a", HELD, 2.5)
    made["phases"][0]["streams"]["labels"]["beyond_carrier"] = {"p50": 0.5, "p99": 0.5}
    [table] = stream_tables(groups([results(made)]))
    row = dict(zip(table.head, table.rows[0], strict=True))
    assert row["p50 beyond the carrier"] == row["p99 beyond the carrier"] == "0.50"
    assert "of possible, all open" not in row


def test_the_share_while_all_were_open_is_of_the_limit():
    made = run("a", HELD, 2.0)
    made["phases"][0]["streams"]["labels"]["all_open"] = 4.5
    [table] = stream_tables(groups([results(made, run("b", HELD, 2.0))]))
    rows = {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}
    assert rows["a"]["of possible, all open"] == "90.0 %"
    assert rows["b"]["of possible, all open"] == "-"
