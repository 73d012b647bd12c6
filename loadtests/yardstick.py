"""A "hello" beside the servers: what the cheapest answer costs on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.child import Child
from deploy.plan import ROOT
from deploy.ports import free_port
from deploy.readiness import wait_until_ready

KIND = "Starlette under uvicorn"
START_SECONDS = 30.0


@contextmanager
def running(log: Path, workers: int) -> Iterator[tuple[int, int]]:
    """Run it; yields its port and process id."""
    port = free_port()
    command = (
        f"{sys.executable} -m uvicorn loadtests.hello:app --host 127.0.0.1 --port {port} "
        f"--workers {workers} --no-access-log --log-level warning"
    )
    child = Child("yardstick", command, log=log, cwd=ROOT)
    child.start()
    try:
        question = f"GET http://127.0.0.1:{port}/"
        wait_until_ready(question, seconds=START_SECONDS, given_up=child.cause_of_death)
        yield port, child.pid
    finally:
        child.kill()
