"""The audit's verdict: red for a hole and for a bug; green without a network, but in CI."""

import json

import pytest

from deploy.audit import skipped, verdict

CLEAN = {"name": "django", "version": "5.2.19", "vulns": []}
HOLE = {"name": "x", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}


@pytest.mark.parametrize(
    ("report", "errors", "status"),
    [
        (json.dumps({"dependencies": [CLEAN]}), "", 0),
        (json.dumps({"dependencies": [CLEAN, HOLE]}), "", 1),
        ("", "requests.exceptions.ConnectionError: no route", 0),
        ("", "urllib3: Max retries exceeded", 0),
        ("", "usage: pip-audit: error: no such option", 1),
        ("", "", 1),
    ],
)
def test_the_verdict(
    report: str, errors: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    assert verdict(report, errors) == status


def test_in_ci_a_look_that_did_not_happen_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    assert verdict("", "urllib3: Max retries exceeded") == 1
    assert skipped("no answer in time") == 1
    assert verdict(json.dumps({"dependencies": [CLEAN]}), "") == 0


def test_a_hole_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    verdict(json.dumps({"dependencies": [HOLE]}), "")
    assert "x 1: CVE-1, fixed in 2" in capsys.readouterr().out
