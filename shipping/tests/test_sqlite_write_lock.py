"""One process at a time has the turn to write; a killed one leaves it to the others."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.db.utils import ConnectionHandler

from shipping.sqlite.base import WriteLock

HOLDER = """
import sys
from shipping.sqlite.base import WriteLock

with WriteLock(sys.argv[1]).turn(1):
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
    with pytest.raises(OperationalError, match="locked"), WriteLock(path).turn(0.05):
        pass


def test_a_killed_process_leaves_the_turn(path: str, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    with WriteLock(path).turn(1):
        pass


def test_who_gave_up_waiting_blocks_nobody(path: str, holder: subprocess.Popen[str]) -> None:
    lock = WriteLock(path)
    with pytest.raises(OperationalError), lock.turn(0.01):
        pass
    holder.kill()
    holder.wait()
    with lock.turn(1):
        pass


def test_threads_of_one_process_take_turns(path: str) -> None:
    lock = WriteLock(path)
    with lock.turn(1), pytest.raises(OperationalError, match="locked"), lock.turn(0.01):
        pass
    with lock.turn(0.01):
        pass


def test_a_folder_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    lock = WriteLock(str(tmp_path / "nowhere" / "db-turn"))
    with pytest.raises(OperationalError, match="no turn to write"), lock.turn(1):
        pass


def is_free(path: str) -> bool:
    try:
        with WriteLock(path).turn(0.01):
            return True
    except OperationalError:
        return False


@pytest.mark.django_db  # unlocks connections; it uses none but its own
@pytest.mark.parametrize("end", ["commit", "rollback", "close"])
def test_a_transaction_has_the_turn_until_its_end(path: str, end: str) -> None:
    name = path.removesuffix("-turn")
    database: Any = {"ENGINE": "shipping.sqlite", "NAME": name}
    connection = ConnectionHandler({"default": database})["default"]
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE parcel (number integer)")
        cursor.execute("INSERT INTO parcel VALUES (1)")
        assert is_free(path)  # a statement alone has it for as long as it runs
        connection.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
        assert not is_free(path)
        cursor.execute("INSERT INTO parcel VALUES (2)")
        assert not is_free(path)
    getattr(connection, end)()
    assert is_free(path)


@pytest.mark.django_db
def test_a_statement_that_fails_leaves_the_turn(path: str) -> None:
    database: Any = {"ENGINE": "shipping.sqlite", "NAME": path.removesuffix("-turn")}
    connection = ConnectionHandler({"default": database})["default"]
    with pytest.raises(OperationalError, match="no such table"):
        connection.cursor().execute("INSERT INTO parcel VALUES (1)")
    assert is_free(path)
    connection.close()


@pytest.mark.django_db
def test_a_cursor_that_outlives_its_connection_leaves_the_turn(path: str) -> None:
    """Nobody would take it back: the wrapper has no connection left to end a transaction on."""
    database: Any = {"ENGINE": "shipping.sqlite", "NAME": path.removesuffix("-turn")}
    connection = ConnectionHandler({"default": database})["default"]
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE parcel (number integer)")
    connection.close()
    with contextlib.suppress(Exception):
        cursor.execute("INSERT INTO parcel VALUES (1)")
    assert is_free(path)


@pytest.mark.django_db
def test_without_autocommit_no_turn_is_left_behind(path: str) -> None:
    """Switching it on again commits, without a call that could pass the turn."""
    database: Any = {"ENGINE": "shipping.sqlite", "NAME": path.removesuffix("-turn")}
    connection = ConnectionHandler({"default": database})["default"]
    connection.cursor().execute("CREATE TABLE parcel (number integer)")
    connection.set_autocommit(False)
    connection.cursor().execute("INSERT INTO parcel VALUES (1)")
    connection.set_autocommit(True)
    assert is_free(path)
    connection.close()


@pytest.mark.django_db
def test_a_transaction_that_sqlite_ends_by_itself_has_its_turn_no_longer(path: str) -> None:
    """As on a full disk. The thread must not wait for itself."""
    database: Any = {
        "ENGINE": "shipping.sqlite",
        "NAME": path.removesuffix("-turn"),
        "OPTIONS": {"timeout": 0.01},
    }
    connection = ConnectionHandler({"default": database})["default"]
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE parcel (number integer)")
        connection.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
        cursor.execute("ROLLBACK")
        cursor.execute("INSERT INTO parcel VALUES (1)")
    assert is_free(path)
    connection.close()
