"""Two at once: cancel and claim, which leaves nothing bought; two batches, which make one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as project

from parcels.models import State
from parcels.statuses import Status

pytestmark = pytest.mark.integration
# Enough to find the moment at which the order is open, and to stay there; two seconds.
ROUNDS = 60


@pytest.fixture(params=["sqlite", "postgresql"])
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Return the environment of a process on an empty database, without a Redis."""
    url = f"sqlite:///{tmp_path / 'db.sqlite3'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql").create_database(f"races_{os.getpid()}")
    return {
        **os.environ,
        "DEBUG": "1",
        "DJANGO_SETTINGS_MODULE": "shipping.settings",
        "DATABASE_URL": url,
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "RUN_DIR": str(tmp_path),
        "LOG_LEVEL": "ERROR",
    }


def rounds(environment: dict[str, str], *options: str, of: str = "races") -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-m", f"parcels.tests.{of}", str(ROUNDS), *options],
        cwd=project.BASE_DIR,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def is_right(played: dict[str, Any]) -> bool:
    withdrawn = {"calls": [], "state": State.CANCELLED}
    voided = {"calls": ["announce", "void"], "state": State.VOIDED}
    rest = {"status": Status.CANCELLED, "code": played["code"]}
    return played["code"] in {200, 202} and played in (withdrawn | rest, voided | rest)


def test_either_nothing_was_bought_or_it_is_voided(environment: dict[str, str]) -> None:
    played = rounds(environment)
    assert len(played) == ROUNDS
    assert [one for one in played if not is_right(one)] == []
    # Both came first now and then: it was a race.
    assert {one["state"] for one in played} == {State.CANCELLED, State.VOIDED}


def test_a_withdrawal_that_looks_at_nothing_is_noticed(environment: dict[str, str]) -> None:
    """The control."""
    assert [one for one in rounds(environment, "--broken") if not is_right(one)]


def test_a_label_is_voided_by_one_worker(environment: dict[str, str]) -> None:
    """PostgreSQL let both claim when the claim joined the parcel."""
    voided = {"calls": ["void"], "state": State.VOIDED, "status": Status.CANCELLED}
    assert [one for one in rounds(environment, "--void") if one != voided] == []


def test_voiding_without_a_claim_is_noticed(environment: dict[str, str]) -> None:
    """The control."""
    played = rounds(environment, "--void", "--broken")
    assert [one for one in played if len(one["calls"]) > 1]


def test_batches_that_overlap_make_the_same_parcels(environment: dict[str, str]) -> None:
    """In opposite order: without a common one, PostgreSQL ends one of them for a deadlock."""
    played = rounds(environment, of="overlaps")
    assert len(played) == ROUNDS
    assert [side["error"] for sides in played for side in sides if side["error"]] == []
    assert all(first["ids"] == second["ids"] for first, second in played)


@pytest.mark.parametrize("environment", ["postgresql"], indirect=True)
def test_a_batch_that_loses_race_after_race_is_stored(environment: dict[str, str]) -> None:
    """To the same orders, sent one by one. On SQLite nobody writes between two of its steps."""
    played = rounds(environment, "--overtaken", of="overlaps")
    assert [batch["error"] for (batch,) in played if batch["error"]] == []
    assert {len(batch["ids"]) for (batch,) in played} == {5}


@pytest.mark.parametrize("environment", ["postgresql"], indirect=True)
def test_a_reference_that_two_requests_move_at_once_ends_neither(
    environment: dict[str, str],
) -> None:
    """The change may be refused: PostgreSQL chooses which of the two ends."""
    played = rounds(environment | {"PGOPTIONS": "-c deadlock_timeout=10ms"}, "--inherit")
    assert {one["errors"][0] for one in played} == {"NoneType"}
    assert {one["errors"][1] for one in played} == {"ReferenceTaken"}
    assert {one["reference"] for one in played} == {"order-1"}
