"""One process at a time has the turn to write; a killed one leaves it to the others."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import OperationalError

from shipping.sqlite.base import WriteLock

HOLDER = """
import sys
from shipping.sqlite.base import WriteLock

WriteLock(sys.argv[1]).take(1)
print("mine", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "db.sqlite3-turn")


@pytest.fixture
def holder(path: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the turn."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "mine\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_another_process_waits_and_gives_up(path: str, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(OperationalError, match="locked"):
        WriteLock(path).take(0.05)


def test_a_killed_process_leaves_the_turn(path: str, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    WriteLock(path).take(1)


def test_who_gave_up_waiting_blocks_nobody(path: str, holder: subprocess.Popen[str]) -> None:
    turn = WriteLock(path)
    with pytest.raises(OperationalError):
        turn.take(0.01)
    holder.kill()
    holder.wait()
    turn.take(1)


def test_threads_of_one_process_take_turns(path: str) -> None:
    turn = WriteLock(path)
    turn.take(1)
    with pytest.raises(OperationalError, match="locked"):
        turn.take(0.01)
    turn.give_up()
    turn.take(0.01)


def test_a_folder_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(OperationalError, match="no turn to write"):
        WriteLock(str(tmp_path / "nowhere" / "db-turn")).take(1)
