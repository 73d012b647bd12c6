"""Waiting in tests: by looking, never by hoping that a sleep is long enough."""

import contextlib
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")
PATIENCE = 30.0
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def until(look: Callable[[], Found], what: str, seconds: float = PATIENCE) -> Found:
    """Look until there is something, and return it."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"waited {seconds:g} s for {what}"
        time.sleep(0.05)
    return found


def alive(pid: int) -> bool:
    """Say whether a process runs; a zombie doesn't."""
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return bool(state) and not state.startswith("Z")


def group_members(group: int) -> list[int]:
    """Return the living processes of a group."""
    table = subprocess.run(
        ["ps", "-A", "-o", "pid=,pgid=,stat="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split() for line in table.splitlines()]
    return [int(pid) for pid, pgid, stat in rows if int(pgid) == group and stat[0] != "Z"]


def descendants(root: int) -> set[int]:
    """Return the living children, grandchildren and so on of a process."""
    table = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split() for line in table.splitlines()]
    parents = {int(pid): int(parent) for pid, parent, stat in rows if stat[0] != "Z"}
    found, before = {root}, set[int]()
    while found != before:
        before = set(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return found - {root}


def get(url: str, seconds: float = 5) -> str:
    """Return the body of an answer."""
    with DIRECT.open(url, timeout=seconds) as answer:
        return answer.read().decode()


def end(process: subprocess.Popen[str]) -> None:
    """End a launcher that a test has started, whatever its state."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            # Killing only make would leave what it started: a machine that was too busy to stop
            # in time must not stay busy.
            for pid in [*descendants(process.pid), process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
