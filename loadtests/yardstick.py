"""A "hello" beside the servers: what the cheapest answer costs on this machine.

Sanic, where its own virtual environment has been made (`make yardstick`); else Starlette under
uvicorn, which is there anyway. The report says which.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.child import Child
from deploy.ports import free_port
from deploy.readiness import wait_until_ready

ROOT = Path(__file__).resolve().parent.parent
SANIC_PYTHON = ROOT / ".venv" / "yardstick" / "bin" / "python"
_HELLOS = Path(__file__).parent / "hellos"
START_SECONDS = 30.0


def kind() -> str:
    """Return which yardstick this machine has."""
    return "Sanic" if SANIC_PYTHON.exists() else "Starlette under uvicorn"


@contextmanager
def running(log: Path, workers: int) -> Iterator[tuple[int, int]]:
    """Run it; yields its port and process id."""
    port = free_port()
    child = Child("yardstick", _command(port, workers), log=log, cwd=_HELLOS)
    child.start()
    try:
        wait_until_ready(
            f"GET http://127.0.0.1:{port}/", seconds=START_SECONDS, given_up=child.cause_of_death
        )
        yield port, child.pid
    finally:
        child.kill()


def _command(port: int, workers: int) -> str:
    if SANIC_PYTHON.exists():
        return f"{SANIC_PYTHON} hello_sanic.py {port} {workers}"
    return (
        f"{sys.executable} -m uvicorn hello_starlette:app --host 127.0.0.1 --port {port} "
        f"--workers {workers} --no-access-log --log-level warning"
    )
