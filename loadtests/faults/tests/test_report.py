"""The table and the report: what was not run is missing, and a green control is a failure."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from loadtests.faults.__main__ import in_order
from loadtests.faults.fault import Measure, Result, all_faults
from loadtests.faults.invariants import Finding
from loadtests.faults.report import NAMES, facts, passed, table, write

GREEN = Result(
    "F7", "resets", "short", "postgresql", "", 7, 300, tried=300,
    findings=[Finding(name, 300, 0) for name in NAMES], schedule=[(0.1, "ready")],
)  # fmt: skip
RED = replace(GREEN, doubled=3, findings=[Finding(name, 300, 3) for name in NAMES])
CONTROL = replace(RED, control="unknown", reddens="I2")


def test_all_nineteen_are_there_and_each_has_both_doses() -> None:
    faults = all_faults()
    assert list(faults) == [f"F{number}" for number in range(1, 20)]
    assert all(set(fault.doses) == {"short", "full"} for fault in faults.values())


def test_the_suite_s_order_has_each_once() -> None:
    assert sorted(in_order(all_faults())) == sorted(all_faults())
    assert in_order(["F99", "F1", "F17"]) == ["F17", "F1", "F99"]


def test_each_has_a_control() -> None:
    assert [fault.id for fault in all_faults().values() if not fault.controls] == []


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
    assert "0/300" in text
    assert "control (unknown off)" in text
    assert "RED, as it must be" in text


def test_the_report_keeps_what_was_not_run_and_says_what_is_missing(tmp_path: Path) -> None:
    faults = all_faults()
    write([GREEN], faults, tmp_path)
    write([replace(GREEN, fault="F1")], faults, tmp_path)
    entries = json.loads((tmp_path / "report.json").read_text())
    assert list(entries) == list(faults)
    assert entries["F7"]["runs"][0]["tried"] == 300
    assert entries["F7"]["runs"][0]["commit"]
    assert entries["F19"]["missing"]
    text = (tmp_path / "report.md").read_text()
    assert "*missing*" in text
    assert "| F7 resets | guarded | postgresql | short (300) | 300 |" in text.replace(
        faults["F7"].title, "resets"
    )


def test_each_run_keeps_the_commit_that_it_was_made_on(tmp_path: Path) -> None:
    faults = all_faults()
    write([GREEN], faults, tmp_path, made=facts() | {"commit": "before"})
    write([replace(GREEN, fault="F1")], faults, tmp_path, made=facts() | {"commit": "after"})
    entries = json.loads((tmp_path / "report.json").read_text())
    assert [entries[id_]["runs"][0]["commit"] for id_ in ("F7", "F1")] == ["before", "after"]


def test_a_guarded_run_leaves_the_control_s_entry(tmp_path: Path) -> None:
    write([GREEN, CONTROL], all_faults(), tmp_path)
    write([replace(GREEN, seed=8)], all_faults(), tmp_path)
    runs = json.loads((tmp_path / "report.json").read_text())["F7"]["runs"]
    assert [(run["control"], run["seed"]) for run in runs] == [("", 8), ("unknown", 7)]


def test_a_full_dose_replaces_the_short_one_and_not_the_other_way_round(tmp_path: Path) -> None:
    def doses() -> list[str]:
        report = json.loads((tmp_path / "report.json").read_text())
        return [run["dose"] for run in report["F7"]["runs"] if not run["control"]]

    full = replace(GREEN, dose="full", requests=5000)
    for result, shown in [(GREEN, ["short"]), (full, ["full"]), (GREEN, ["full", "short"])]:
        write([result], all_faults(), tmp_path)
        assert doses() == shown
