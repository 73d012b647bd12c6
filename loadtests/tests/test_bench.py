import json
import time
from types import SimpleNamespace
from typing import Any

import pytest

from deploy.stores import StoreMissingError
from loadtests import __main__ as command
from loadtests import bench, bench_data, deployment, scenario, suite
from loadtests.bench import Bench, Job, Wishes, jobs
from loadtests.deployment import ContractError
from loadtests.generator import Progress
from loadtests.measure import Run
from loadtests.metrics import Sample
from loadtests.results import NAME, read
from loadtests.screen import Screen
from loadtests.tests.bench_results import HELD, run

TALK = scenario.load("talk", quick=True)
WISHES = Wishes(strategies=("asgi-hold", "runserver", "bjoern"), repeats=3, seed=7)


def test_each_repeat_has_all_strategies_in_another_order():
    ordered = jobs([TALK], WISHES)
    rounds = [ordered[start : start + 3] for start in (0, 3, 6)]
    assert [{job.repeat for job in round_} for round_ in rounds] == [{1}, {2}, {3}]
    orders = [tuple(job.strategy for job in round_) for round_ in rounds]
    assert all(set(order) == set(WISHES.strategies) for order in orders)
    assert len(set(orders)) > 1
    assert orders == [
        tuple(job.strategy for job in jobs([TALK], WISHES)[start : start + 3])
        for start in (0, 3, 6)
    ]


def test_variants_are_runs_of_their_own():
    found = jobs([scenario.load("ceiling")], Wishes(strategies=("asgi-hold",)))
    assert {job.variant for job in found} == {"one process", "two processes"}
    assert len({job.label for job in found}) == 2


def test_a_variant_that_names_its_strategy_is_of_that_one_alone():
    jobs_ = scenario.load(str(scenario.FOLDER / "seeds" / "jobs.toml"))
    found = jobs([jobs_], Wishes(strategies=("cheroot", "uwsgi-threads")))
    assert {(job.strategy, job.variant) for job in found} == {
        ("cheroot", "10"),
        *(("uwsgi-threads", size) for size in ("1 x 10", "4 x 10", "1 x 40")),
    }


class NoServer:
    def __init__(self, **_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """A bench whose runs come from `outcomes` by strategy; everything else is real."""
    outcomes: dict[str, Run | BaseException] = {}

    def measure(strategy, *_, **__):
        outcome = outcomes[strategy]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    monkeypatch.setattr(bench, "PostgresServer", NoServer)
    monkeypatch.setattr(bench, "measure", measure)
    monkeypatch.setattr(bench, "unavailable", dict)
    monkeypatch.setattr(bench.ceiling, "measure", lambda **_: {})

    def go(wishes=WISHES, **runs):
        outcomes.update({name.replace("_", "-"): outcome for name, outcome in runs.items()})
        made = Bench(tmp_path, wishes)
        return made.run([TALK], lambda *_: lambda phase, progress: None, lambda outcome: None)

    return go


def figures(reasons=(), *, interrupted=False):
    found = run("any", HELD, 2.0)
    kept = {key: found[key] for key in ("phases", "timeline", "books", "sizes")}
    sample = Sample("labels", 5.25, 5.3501, None, 6.2501, "time-out")
    return Run(kept, [("talk", 5.0, [sample])], interrupted, list(reasons))


def test_a_failed_run_is_missing_with_its_reason_and_the_others_go_on(measured, tmp_path):
    found = measured(
        asgi_hold=ContractError("a create with label\nanswered 500"),
        runserver=figures(),
        bjoern=figures(["the generator was late: 3%"]),
    )
    by_strategy = {run["strategy"]: run for run in found["runs"]}
    assert by_strategy["asgi-hold"]["status"] == "missing"
    assert by_strategy["asgi-hold"]["reason"] == "ContractError: a create with label answered 500"
    assert by_strategy["runserver"]["status"] == "measured"
    assert by_strategy["bjoern"]["status"] == "invalid"
    assert found["complete"]
    assert read(tmp_path / NAME) == json.loads(json.dumps(found))


def test_a_run_that_would_not_end_in_time_is_missing(measured):
    late = Wishes(strategies=("runserver",), until=time.monotonic() + 10)
    [run] = measured(late, runserver=figures())["runs"]
    assert (run["status"], run["reason"]) == ("missing", "no time was left: run it by itself")


def test_ctrl_c_keeps_what_was_measured(measured, tmp_path):
    one = Wishes(strategies=("asgi-hold", "runserver"), seed=1)
    first, second = (job.strategy.replace("-", "_") for job in jobs([TALK], one))
    found = measured(one, **{first: figures(), second: KeyboardInterrupt()})
    assert [run["status"] for run in found["runs"]] == ["measured", "missing"]
    again = measured(one, **{first: figures(interrupted=True), second: figures()})
    assert [run["status"] for run in again["runs"]] == ["partial"]
    assert not again["complete"]
    assert (tmp_path / NAME).exists()


def test_every_sample_is_kept_beside_the_figures(measured, tmp_path):
    import gzip

    measured(Wishes(strategies=("runserver",)), runserver=figures())
    with gzip.open(tmp_path / "samples" / "talk_runserver_1.csv.gz", "rt") as file:
        assert file.read().splitlines() == [
            "phase,stream,intended,sent_after,first_byte_after,end_after,outcome",
            "talk,labels,0.2500,0.100,,1.0001,time-out",
        ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "speech"],
        ["run", "talk", "loadtests/scenarios/talk.toml"],
        ["run", "talk", "--speed", "3"],
        ["run", "talk", "--connections", "many"],
        ["run", "talk", "--strategies", "abacus"],
        ["report", "/nowhere/results.json"],
    ],
)
def test_wrong_use_ends_with_2_and_a_sentence(arguments, capsys):
    assert command.main(arguments) == 2
    assert capsys.readouterr().err.startswith("loadtests: ")


def test_without_postgresql_it_says_how_to_get_it(monkeypatch, tmp_path, capsys):
    def run(*_):
        assert "left out" not in capsys.readouterr().err  # a run by itself has no end
        raise StoreMissingError("no PostgreSQL programs; install: postgresql")

    monkeypatch.setattr(command, "available", lambda wanted: ("asgi-hold",))
    monkeypatch.setattr(command, "_bench", run)
    assert command.main(["run", "talk", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "loadtests: no PostgreSQL programs; install: postgresql\n"


@pytest.mark.parametrize(
    ("runs", "complete", "code"),
    [
        (["measured"], True, 0),
        (["measured", "missing"], True, 1),
        (["invalid"], True, 1),
        (["measured", "doubled"], True, 1),
        ([], False, 130),
    ],
)
def test_the_exit_code_says_how_it_went(monkeypatch, tmp_path, capsys, runs, complete, code):
    class Made:
        interrupted = not complete

        def __init__(self, *_):
            pass

        def run(self, *_):
            return {"runs": [made(status) for status in runs], "complete": complete}

    def made(status):
        named = {"scenario": "talk", "strategy": "asgi-hold", "reason": "it was late"}
        if status == "doubled":
            return named | {"status": "measured", "books": {"doubled": 1}}
        return named | {"status": status, "books": {"doubled": 0}}

    monkeypatch.setattr(command, "Bench", Made)
    monkeypatch.setattr(command, "available", lambda wanted: ("asgi-hold",))
    monkeypatch.setattr(command, "write_report", lambda results, folder: folder)
    assert command.main(["run", "talk", "--out", str(tmp_path)]) == code
    said = capsys.readouterr().err
    twice = "doubled" in runs
    why = f"1 of {len(runs)} runs are missing or invalid:\n  talk asgi-hold: it was late\n"
    assert (why in said) == (code == 1 and not twice)
    assert ("talk asgi-hold: labels were bought twice" in said) == twice


@pytest.mark.parametrize(
    "asked", [["talk", "--repeats", "0"], [str(scenario.FOLDER / "seeds" / "jobs.toml")]]
)
def test_what_would_run_nothing_is_refused(monkeypatch, tmp_path, capsys, asked):
    monkeypatch.setattr(command, "available", lambda wanted: ("asgi-hold",))
    monkeypatch.setattr(command, "_bench", lambda *_: ({"runs": []}, 0))
    monkeypatch.setattr(command, "write_report", lambda results, folder: folder)
    assert command.main(["run", *asked, "--out", str(tmp_path)]) == 2
    assert "nothing to run" in capsys.readouterr().err


def test_nothing_is_sent_by_no_process(capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(["run", "talk", "--generators", "0"])
    assert ended.value.code == 2
    assert "at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"parcels": []}'])
def test_an_answer_without_a_parcel_breaks_the_contract(monkeypatch, answer):
    """So that its run is missing, and the others are made."""
    stack: Any = SimpleNamespace(base_url="http://127.0.0.1:1")
    monkeypatch.setattr(deployment, "login", lambda _: "public:secret")
    monkeypatch.setattr(deployment, "ask", lambda *_, **__: (200, answer))
    with pytest.raises(ContractError, match="a create with label answered"):
        deployment.check_contract(stack)


def test_a_database_is_not_compared_with_itself(capsys):
    with pytest.raises(SystemExit):
        bench_data.main(["--large", "1000"])
    assert "more than that" in capsys.readouterr().err


def test_parameters_are_flags():
    parsed = command._overrides(["--connections", "50", "--carrier-seconds=0.5"])
    assert parsed == {"connections": 50, "carrier_seconds": 0.5}


def test_a_job_tells_its_progress_in_words(capsys):
    screen = Screen()
    screen._tell("talk", Progress(sent=9, good=5, failed=1, in_flight=3))
    screen._tell("talk", Progress())  # so soon nobody wants to read it
    assert capsys.readouterr().err == "    talk: 9 sent, 3 wait, 5 good, 1 failed\n"
    assert Job(TALK, "asgi-hold", "", 2).label == "talk_asgi-hold_2"


def test_a_suite_is_one_report_and_its_worst_part_is_its_code(monkeypatch, tmp_path):
    benches, reported = [], []

    def one(folder, wishes, scenarios):
        benches.append((folder.name, wishes.strategies, [found.name for found in scenarios]))
        return {"runs": []}, len(benches) - 1

    monkeypatch.setattr(command, "_bench", one)
    monkeypatch.setattr(command, "available", lambda wanted: ("asgi-hold", "bjoern"))
    monkeypatch.setattr(command, "write_report", lambda results, _: reported.append(len(results)))
    assert command.main(["suite", "quick", "--out", str(tmp_path)]) == 1
    assert benches == [
        ("outage", ("asgi-hold",), ["outage"]),
        ("talk", ("asgi-hold", "bjoern"), ["talk"]),
    ]
    assert reported == [2]


def test_the_full_suite_has_every_scenario_and_repeats_what_readme_compares():
    assert {name for part in suite.FULL for name in part.scenarios} == set(scenario.names())
    compared = [part for part in suite.FULL if part.repeats == 5]
    assert [part.scenarios for part in compared] == [("outage",), ("crowd",)]
    assert {part.strategies for part in compared} == {suite.COMPARED}
    # In one folder each, and no figure of two sizes of pool.
    assert len({part.scenarios for part in suite.FULL}) == len(suite.FULL)
    assert {part.workers for part in suite.FULL if "crowd" in part.scenarios} == {0}
    sizing = {part.name: part.wishes.workers for part in suite.plan("full", ["asgi-hold"], "")}
    assert (sizing["crowd"], sizing["growth"], sizing["outage"]) == (0, 0, bench.WORKERS)


@pytest.mark.parametrize(("workers", "sizes"), [(4, {"WEB_WORKERS": "4"}), (0, {})])
def test_equal_workers_are_equal_and_none_are_the_folders_own(workers, sizes):
    wishes = Wishes(strategies=(), workers=workers)
    assert wishes.sizes == sizes
    assert (str(workers) in wishes.sizing) == bool(workers)
