"""The table and the report: what was not run is missing, and a green control is a failure."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from loadtests.faults.__main__ import in_order, main
from loadtests.faults.fault import Fault, Measure, Result, all_faults, planned
from loadtests.faults.invariants import INVARIANTS, Finding
from loadtests.faults.report import facts, passed, table, write

DOCS = Path(__file__).parents[3] / "docs"
NAMES = [f"I{number}" for number in range(1, len(INVARIANTS) + 1)]
GREEN = Result(
    "F7", "resets", "short", "postgresql", "", 7, 300, tried=300,
    findings=[Finding(name, 300, 0) for name in NAMES], schedule=[(0.1, "ready")],
)  # fmt: skip
RED = replace(GREEN, doubled=3, findings=[Finding(name, 300, 3) for name in NAMES])
CONTROL = replace(RED, control="unknown", reddens="I2")


def test_the_faults_are_numbered_and_each_has_both_doses() -> None:
    faults = all_faults()
    assert list(faults)[:19] == [f"F{number}" for number in range(1, 20)]
    assert all(set(fault.doses) == {"short", "full"} for fault in faults.values())


def test_the_suite_s_order_has_each_once_and_times_last() -> None:
    faults = all_faults()
    order = in_order(faults)
    assert sorted(order) == sorted(faults)
    alone = [faults[id_].alone for id_ in order]
    assert alone == sorted(alone)


@pytest.mark.parametrize(
    "asked",
    ["F99", "--lane 999/999", "F7 --lane 3/2", "F7 --lane 0/2", "F7 --lane 1", "F7 --lane 2/2",
     "F7 --control nosuch", "F19 --database sqlite", "F4 --database sqlite",
     "F29 --broker rabbitmq", "F29 --database pgbouncer", "F25 --database pgbouncer"],
)  # fmt: skip
def test_what_would_run_nothing_is_refused(asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(asked.split())
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_the_readme_counts_as_the_report() -> None:
    runs = json.loads((DOCS / "faults" / "results.json").read_text())
    full = [run for run in runs if run["dose"] == "full" and not run["control"]]
    reviews, asked = (sum(run[name] for run in full) for name in ("review", "tried"))
    said = " ".join((DOCS.parent / "README.md").read_text().split())
    assert f"{reviews} of {asked:,} requests were left to a person" in said
    assert sum(run["sold_twice"] for run in full) == 10
    assert "sold ten twice" in said


def test_scaling_tells_of_several_machines_as_the_report() -> None:
    runs = json.loads((DOCS / "faults" / "results.json").read_text())
    (run,) = (each for each in runs if (each["fault"], each["dose"]) == ("F29", "full"))
    told = (DOCS / "scaling.md").read_text()
    assert f"commit {run['commit']}" in told
    values = {each["name"]: each["value"] for each in run["measures"]}
    for step in (name.removesuffix(": answers") for name in values if name.endswith(": answers")):
        kinds = re.findall(r"(\d+(?:, label)?): (\d+)", values[f"{step}: answers"])
        said = ", ".join(
            f"{n} \N{MULTIPLICATION SIGN} {kind.replace(', label', ' with label')}"
            for kind, n in kinds
        )
        silence = values[f"{step}: seconds without an answer to anybody"]
        longest = values[f"{step}: a client's longest wait"]
        assert f"| {said} | {silence} s | {longest} s |" in told


def test_each_has_a_control_or_says_why_not() -> None:
    without = [fault for fault in all_faults().values() if not fault.controls]
    assert [fault.id for fault in without if not fault.uncontrolled] == []


def test_a_full_suite_is_planned_with_short_controls() -> None:
    runs = [str(run) for run in planned(all_faults()["F7"], "full")]
    assert runs == [
        "F7 guarded on postgresql, full dose",
        "F7 guarded on sqlite, short dose",
        "F7 without unknown on postgresql, short dose",
    ]


@pytest.mark.parametrize(
    ("results", "good"),
    [
        ([GREEN], True),
        ([GREEN, CONTROL], True),
        ([RED], False),
        ([GREEN, replace(GREEN, control="unknown", reddens="I2")], False),
        ([GREEN, replace(CONTROL, reddens="p99")], False),
        ([replace(GREEN, measures=[Measure("p99", 9.0, "1", False)])], False),
    ],
)
def test_passing_means_green_runs_and_red_controls(results: list[Result], good: bool) -> None:
    assert passed(results) is good


def test_the_table_counts() -> None:
    text = table([GREEN, CONTROL])
    assert "I2 3/300" in text
    assert "without unknown" in text
    assert "RED, as it must be" in text


@pytest.fixture(scope="module")
def faults() -> dict[str, type[Fault]]:
    return all_faults()


def report(folder: Path) -> str:
    return (folder / "report.md").read_text()


def test_what_was_not_run_is_missing(faults: dict[str, type[Fault]], tmp_path: Path) -> None:
    write([replace(GREEN, dose="full")], faults, tmp_path)
    write([replace(GREEN, fault="F1", dose="full")], faults, tmp_path)
    missing = report(tmp_path).partition("## Missing")[2]
    assert "- F19 guarded on postgresql, full dose" in missing
    assert "- F7 without unknown on postgresql, short dose" in missing
    assert "- F7 guarded on postgresql, full dose" not in missing
    assert "- F1 guarded on postgresql, full dose" not in missing


def test_the_report_is_of_one_commit(faults: dict[str, type[Fault]], tmp_path: Path) -> None:
    clean = facts() | {"changed_files": 0}
    before, after = clean | {"commit": "aaa"}, clean | {"commit": "bbb"}
    write([replace(GREEN, dose="full")], faults, tmp_path, made=before)
    write([replace(GREEN, fault="F1", dose="full")], faults, tmp_path, made=after)
    table_, _, missing = report(tmp_path).partition("## Missing")
    assert "Commit bbb\n" in table_
    assert "| F7 " not in table_
    assert "- F7 guarded on postgresql, full dose: last run on commit aaa" in missing


def test_the_report_names_runs_of_changed_files(
    faults: dict[str, type[Fault]], tmp_path: Path
) -> None:
    clean = facts() | {"changed_files": 0}
    write([GREEN], faults, tmp_path, made=clean)
    write([replace(GREEN, fault="F1")], faults, tmp_path, made=clean | {"changed_files": 1})
    assert f"- Commit {clean['commit']}, but F1 of changed files\n" in report(tmp_path)


def test_a_run_s_commit_is_told_once_and_the_report_does_not_dirty_it() -> None:
    made = facts()
    assert not made["commit"].endswith("-dirty")
    assert "commit" not in made["machine"]


def test_a_run_replaces_its_own_result_only(faults: dict[str, type[Fault]], tmp_path: Path) -> None:
    write([GREEN, CONTROL], faults, tmp_path)
    write([replace(GREEN, seed=8)], faults, tmp_path)
    runs = json.loads((tmp_path / "results.json").read_text())
    assert [(run["control"], run["seed"]) for run in runs] == [("", 8), ("unknown", 7)]


def test_a_result_that_can_t_be_written_loses_no_other(
    faults: dict[str, type[Fault]], tmp_path: Path
) -> None:
    write([GREEN], faults, tmp_path)
    before = (tmp_path / "results.json").read_text()
    with pytest.raises(TypeError):
        write([replace(GREEN, seed=cast(int, b"7"))], faults, tmp_path)
    assert (tmp_path / "results.json").read_text() == before


def test_lanes_that_write_at_once_lose_nothing(
    faults: dict[str, type[Fault]], tmp_path: Path
) -> None:
    made, lanes = facts(), [f"lane {number}" for number in range(20)]
    with ThreadPoolExecutor(len(lanes)) as pool:
        for lane in lanes:
            pool.submit(write, [replace(GREEN, database=lane)], faults, tmp_path, made=made)
    runs = json.loads((tmp_path / "results.json").read_text())
    assert sorted(run["database"] for run in runs) == sorted(lanes)


def test_what_a_server_said_is_no_markup(faults: dict[str, type[Fault]], tmp_path: Path) -> None:
    said = Measure("honoured", "200 <b>a|b</b>\n", "0", met=False)
    write([replace(GREEN, dose="full", measures=[said])], faults, tmp_path)
    assert "| honoured | 200 &lt;b>a\\|b&lt;/b>  | 0 | **missed** |" in report(tmp_path)


def test_a_control_that_stays_green_is_named(
    faults: dict[str, type[Fault]], tmp_path: Path
) -> None:
    write([CONTROL, replace(GREEN, fault="F1", control="unknown")], faults, tmp_path)
    controls = report(tmp_path).partition("## Controls")[2]
    assert controls.count("red, as it must be") == 1
    assert controls.count("not red for its reason") == 1
