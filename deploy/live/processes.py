"""Memory and open database files of a stack's processes."""

import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

# `ps` answers in 20 ms; on a machine that is choking a late figure is better than none.
PS_SECONDS = 5.0


@dataclass(frozen=True)
class Usage:
    """Processes, their resident memory in bytes (shared pages count in each), database files."""

    processes: int
    memory: int
    database_files: int | None


def usage(roots: list[int], database: Path | None, table: str | None = None) -> Usage:
    """Add up the roots and all below them, without this process and what it has started itself.

    `table` is for tests; else `ps` is asked, which Linux and macOS both have.
    """
    parents, memory = _parse(table if table is not None else _ps())
    children: dict[int, list[int]] = defaultdict(list)
    for pid, parent in parents.items():
        children[parent].append(pid)
    found: set[int] = set()
    stack = [pid for pid in roots if pid in parents]
    while stack:
        pid = stack.pop()
        if pid not in found and pid != os.getpid():
            found.add(pid)
            stack += children[pid]
    files = None if database is None else _open_files(found, database)
    return Usage(len(found), sum(memory[pid] for pid in found), files)


def _ps() -> str:
    done = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,rss="],
        capture_output=True,
        text=True,
        timeout=PS_SECONDS,
        check=True,
    )
    return done.stdout


def _parse(table: str) -> tuple[dict[int, int], dict[int, int]]:
    rows = [[int(word) for word in line.split()] for line in table.splitlines()]
    parents = {pid: parent for pid, parent, _ in rows}
    return parents, {pid: kilobytes * 1024 for pid, _, kilobytes in rows}


def _open_files(pids: set[int], path: Path) -> int | None:
    """Count open descriptors of the file: SQLite has one for each connection."""
    if sys.platform != "linux":
        return None
    wanted = str(path)
    return sum(_links(pid).count(wanted) for pid in pids)


def _links(pid: int) -> list[str]:
    links = []
    try:
        for descriptor in os.scandir(f"/proc/{pid}/fd"):
            links.append(os.readlink(descriptor.path))
    except OSError:
        pass  # it has ended, or closed the file meanwhile
    return links
