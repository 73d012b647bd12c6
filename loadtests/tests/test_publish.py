"""What README and pages say of the results is what the raw data say."""

import json

import pytest

from deploy import strategy as strategies
from deploy.plan import ROOT
from loadtests import __main__ as command
from loadtests import publish
from loadtests.decision import (
    DOUBT,
    NOT_MEASURED,
    Evidence,
    decision_table,
    memory_each,
    reload,
    result_table,
    short_answers,
    to_install,
)
from loadtests.published import Published, benches
from loadtests.tests.bench_results import HELD, WAITS, missing, results, run

COMMITTED = benches()


@pytest.mark.parametrize("page", publish.PAGES)
def test_the_pages_say_what_the_newest_committed_result_says(page):
    """Red? `make results`."""
    text = (ROOT / page).read_text()
    assert publish.written(text, page, COMMITTED) == text
    assert any(f"<!-- {name} -->" in text for name in publish.PARTS)


def test_a_figure_that_was_changed_by_hand_is_seen():
    text = (ROOT / "README.md").read_text()
    changed = text.replace("of the limit |", "of the limits |", 1)
    assert publish.written(changed, "README.md", COMMITTED) == text != changed


def rows(table):
    return {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}


def evidence(*made):
    return Evidence.of(Published(ROOT, made).groups())


@pytest.fixture
def seen():
    return evidence(
        results(
            run("nginx-accel", HELD, 2.0),
            run("nginx-accel", HELD, 4.0, repeat=2),
            run("asgi-hold", HELD, 2.0, status="invalid"),
            run("uwsgi-prefork", WAITS, 20.0, failed=40),
            missing("cheroot", WAITS, "ContractError: answered 500"),
        )
    )


def test_a_missing_run_is_not_measured_and_never_nought(seen):
    for table in (result_table(seen), decision_table(seen)):
        for name in ("cheroot", "bjoern"):
            row = rows(table)[name]
            assert row["of the limit"] == row["failed"] == NOT_MEASURED
    assert set(rows(result_table(seen))["cheroot"].values()) == {"cheroot", NOT_MEASURED}


def test_what_has_no_valid_run_is_marked(seen):
    found = rows(result_table(seen))
    assert found["asgi-hold"]["of the limit"] == f"100.0 %{DOUBT}"
    assert DOUBT not in found["nginx-accel"]["of the limit"]


def test_repeats_are_a_median_and_a_range(seen):
    found = rows(result_table(seen))["nginx-accel"]
    assert found["of the limit"] == "75.0 % (50.0 % to 100.0 %)"


def test_who_never_answered_well_has_no_latency_but_was_measured(seen):
    found = rows(result_table(seen))["uwsgi-prefork"]
    assert (found["failed"], found["wait, p99"]) == ("100.0 %", "no answer")


def test_the_best_valid_one_comes_first_and_every_strategy_has_a_row(seen):
    names = [row[0] for row in decision_table(seen).rows]
    assert names[:3] == ["nginx-accel", "uwsgi-prefork", "asgi-hold"]
    assert set(strategies.names()) <= set(names)


def test_the_short_answers_are_of_valid_runs_alone(seen):
    python, nginx, worker = short_answers(seen)
    assert NOT_MEASURED in python
    assert "**nginx-accel** (75.0 % of the limit, 0 % failed)" in nginx
    assert "none without failures; the fewest had **uwsgi-prefork**" in worker


def test_a_rank_within_the_noise_is_no_reason_to_install_more():
    def nginx(*made):
        return short_answers(evidence(results(*made)))[1]

    script = run("nginx-njs", HELD, 2.0)
    alike = nginx(script, run("nginx-accel", HELD, 2.02))
    assert "**nginx-accel** (99.0 % of the limit, 0 % failed), of 2." in alike
    assert alike.endswith("Alike within 2.0 %, and none needs less: nginx-njs.")
    assert "**nginx-njs** (100.0 %" in nginx(script, run("nginx-accel", HELD, 2.2))


def test_equal_memory_is_a_column_of_its_own():
    fitted = results(run("asgi-hold", HELD, 4.0)) | {"sizing": "as fit into 600 MB with front"}
    seen = evidence(results(run("asgi-hold", HELD, 2.0)), fitted)
    row = rows(result_table(seen))["asgi-hold"]
    assert row["of the limit"] == "100.0 %"
    assert row["of the limit at equal memory"] == "50.0 %"


def test_a_scenario_run_with_other_parameters_is_not_mixed_in():
    quick = results(run("asgi-hold", HELD, 4.0)) | {"began": "2026-01-01 01:01 UTC"}
    quick["scenarios"] = {"talk": quick["scenarios"]["talk"] | {"parameters": {"requests": 1}}}
    seen = evidence(quick, results(run("asgi-hold", HELD, 2.0)))
    assert rows(result_table(seen))["asgi-hold"]["of the limit"] == "100.0 %"


def decision(*made):
    return "\n".join(publish.PARTS["decision"]([Published(ROOT, made)], ""))


def test_the_decision_says_how_often_each_scenario_ran_validly():
    fitted = results(run("asgi-hold", HELD, 4.0)) | {"sizing": "as fit into 600 MB with front"}
    said = decision(
        results(
            run("asgi-hold", HELD, 2.0),
            run("asgi-hold", HELD, 2.0, repeat=2),
            run("asgi-hold", HELD, 9.0, repeat=3, status="invalid"),
            run("nginx-accel", HELD, 2.0),
            missing("cheroot", WAITS, "ContractError: answered 500"),
        ),
        fitted,
    )
    assert "Valid runs: `talk` in full form, 1 to 2 for each of 2 strategies." in said


def test_the_result_says_its_own_sizing_and_not_the_last_parts():
    fitted = results(run("asgi-hold", HELD, 4.0)) | {"sizing": "as fit into 600 MB with front"}
    found = Published(ROOT / "docs" / "benchmarks" / "x", (results(run("a", HELD, 2.0)), fitted))
    assert "Size: 5 web processes." in "\n".join(publish.PARTS["result"]([found], ""))


def test_memory_is_counted_from_nobody_to_the_most():
    # 10 clients are there in second 1 of the run; the first look saw 100 MB, that one 101.
    assert memory_each(run("asgi-hold", HELD, 2.0)) == pytest.approx(100.0)
    assert memory_each({**run("asgi-hold", HELD, 2.0), "timeline": []}) is None


def reloaded(errors):
    made = run("nginx-accel", HELD, 2.0)
    stream = made["phases"][0]["streams"]["labels"]
    stream["summary"]["errors"] = errors
    made["scenario"] = made["phases"][0]["name"] = "reload"
    bench = results(made)
    bench["scenarios"]["reload"] = bench["scenarios"]["talk"]
    return evidence(bench).equal["reload", "nginx-accel"]


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        ({}, "0 of 40 lost"),
        ({"http 502": 3}, "3 of 40 lost"),
        ({"http 202": 4}, "0 of 40 lost, 4 got their label later (202)"),
    ],
)
def test_a_reload_says_who_lost_and_who_got_a_promise(errors, said):
    assert reload(reloaded(errors), strategies.load("nginx-accel")) == said


def test_a_strategy_without_a_reload_says_so():
    assert "no reload" in reload(None, strategies.load("bjoern"))
    assert reload(None, strategies.load("nginx-accel")) == NOT_MEASURED


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nginx-njs", "nginx, libnginx-mod-http-js, pyuwsgi"),
        ("bjoern", "bjoern (`bash deploy/setup.sh`)"),
        ("runserver", "nothing"),
    ],
)
def test_what_must_be_installed_comes_from_the_folder(name, said):
    assert to_install(strategies.load(name)) == said


def test_the_newest_is_the_one_that_began_last(tmp_path):
    for folder, began in (("a", "2026-01-03"), ("b", "2026-01-02"), ("empty", "")):
        (tmp_path / folder / "talk").mkdir(parents=True)
        if began:
            bench = results(run("asgi-hold", HELD, 2.0)) | {"began": began}
            (tmp_path / folder / "talk" / "results.json").write_text(json.dumps(bench))
    assert [bench.folder.name for bench in benches(tmp_path)] == ["b", "a"]


def test_nothing_measured_is_said(tmp_path):
    text = "<!-- result -->\nold\n<!-- /result -->\n<!-- strategies -->\nx\n<!-- /strategies -->\n"
    said = publish.written(text, "README.md", benches(tmp_path))
    assert "Nothing has been measured yet" in said
    assert "<!-- strategies -->\nx\n" in said


def test_the_command_says_what_it_wrote(monkeypatch, capsys):
    monkeypatch.setattr(command, "publish", lambda: ["README.md"])
    assert command.main(["publish"]) == 0
    assert capsys.readouterr().out == "wrote README.md\n"
