"""The audit's verdict: red for a hole and for a bug; green without a network, but in CI."""

import subprocess
from pathlib import Path

import pytest

from deploy.tests.audit import main, skipped, verdict

HOLE = "Name Version ID    Fix Versions\n---- ------- ----- ------------\nx    1       CVE-1 2\n"
AWAY = "urllib3: Max retries exceeded"
UNSEEN = (
    "Name Skip Reason\n---- -----\nx    Dependency not found on PyPI and could not be audited: x\n"
)
CLEAN = "No known vulnerabilities found"


@pytest.mark.parametrize(
    ("status", "found", "errors", "verdict_"),
    [
        (0, "", CLEAN, 0),
        (1, HOLE, "Found 1 known vulnerability in 1 package", 1),
        (1, HOLE.replace("x ", "ConnectionError "), AWAY, 1),  # what was found was found
        (1, "", "requests.exceptions.ConnectionError: no route", 0),
        (1, "", AWAY, 0),
        (2, "", "usage: pip-audit: error: no such option", 2),
        (1, "", "", 1),
    ],
)
def test_the_verdict(
    status: int, found: str, errors: str, verdict_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    assert verdict(status, found, errors) == verdict_


def test_each_lock_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def run(words: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.extend(words)
        return subprocess.CompletedProcess(words, 0, "", CLEAN)

    monkeypatch.setattr(subprocess, "run", run)
    assert main() == 0
    assert {Path(word).name for word in asked} >= {
        f"requirements{part}.txt" for part in ("", "-bjoern", "-dev", "-redis", "-s3")
    }


def test_in_ci_a_look_that_did_not_happen_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    assert verdict(1, "", AWAY) == 1
    assert skipped("no answer in time") == 1
    assert verdict(0, UNSEEN, CLEAN) == 1
    assert verdict(0, "", CLEAN) == 0


def test_ci_goes_on_where_the_index_is_a_mirror_without_advisories(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CI", "true")
    mirror = UNSEEN + "django     Dependency not found on PyPI and could not be audited: django\n"
    assert verdict(0, mirror, CLEAN) == 0
    assert verdict(1, HOLE + mirror, "Found 1 known vulnerability in 1 package") == 1
    said = capsys.readouterr().out
    assert "audit skipped, the index has no advisories: 2 of the packages, first django" in said
    assert CLEAN not in said


def test_what_was_not_looked_up_is_not_clean(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CI", raising=False)
    assert verdict(0, UNSEEN, CLEAN) == 0
    assert verdict(1, HOLE + UNSEEN, "Found 1 known vulnerability in 1 package") == 1
    said = capsys.readouterr()
    assert "audit skipped" in said.out
    assert "1 of the packages, first x" in said.out
    assert CLEAN not in said.out + said.err
    assert "CVE-1" in said.err


def test_a_hole_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    verdict(1, HOLE, "Found 1 known vulnerability in 1 package")
    assert "x    1       CVE-1 2" in capsys.readouterr().err
