"""The server's side of a run: processor, memory, connections, holds and busy workers over time."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
from prometheus_client.parser import text_string_to_metric_families

from deploy.counted import read_counted
from deploy.loopback import ask
from deploy.processes import Processes
from deploy.rows import PostgreSQL
from deploy.simulator import Simulator
from deploy.stack import Stack

# Seconds between two looks. One look costs 30 to 60 ms of one core.
INTERVAL = 1.0
# Proportional set sizes are the dear part: the kernel walks all pages of all processes.
MEMORY_EVERY = 2
OURSELVES = "generator"
# Seconds: a figure that takes longer is missing rather than late.
_PATIENCE = 2.0

Row = dict[str, Any]


def others_cores(ours: float) -> float:
    """Return the cores that others used since the last call: what is not ours disturbs."""
    return round(max(psutil.cpu_percent() / 100 * (os.cpu_count() or 1) - ours, 0.0), 2)


class Collector:
    """Looks once a second until it is stopped; a figure that can't be had is missing."""

    def __init__(self, stack: Stack, database_url: str, more: Mapping[str, int]) -> None:
        leaders = {name: stack.pid(name) for name in stack.names} | dict(more)
        self._stack = stack
        self._metrics = Path(stack.env["PROMETHEUS_MULTIPROC_DIR"])
        # What sends and looks belongs to the run, too. Last: all others are its children.
        self._processes = Processes(leaders | {OURSELVES: os.getpid()})
        self._database = PostgreSQL(database_url)
        self._simulator = Simulator(stack.env)
        self._rows: list[Row] = []
        self._end = threading.Event()
        self._broken: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="collector", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> list[Row]:
        """Look no more; return all rows. `at` is on the monotonic clock.

        RuntimeError where it ended before: a run half seen is none.
        """
        self._end.set()
        self._thread.join(timeout=30)
        self._database.close()
        if self._broken is not None:
            raise RuntimeError(f"the collector broke: {self._broken!r}") from self._broken
        return self._rows

    def _run(self) -> None:
        due = time.monotonic()
        try:
            others_cores(sum(self._processes.processor().values()))  # both count from here
            while not self._end.wait(max(due - time.monotonic(), 0)):
                self._rows.append(self._look(with_memory=len(self._rows) % MEMORY_EVERY == 0))
                due = max(due + INTERVAL, time.monotonic())
        except Exception as error:  # in a thread nobody would hear of it
            self._broken = error

    def _look(self, *, with_memory: bool) -> Row:
        row: Row = {"at": time.monotonic(), "load": os.getloadavg()[0]}
        row["cpu"] = self._processes.processor()
        row["others"] = others_cores(sum(row["cpu"].values()))
        if with_memory:
            row["memory"] = self._processes.memory(without=OURSELVES)
        if rows := self._database.read():
            row |= {"connections": rows.connections, "held": rows.holds, "open": rows.open}
        if "hub" in self._stack.names:
            self._try(row, "held", self._held_by_hub)
        pids = [process.pid for process in self._processes.tree("web")]
        self._try(row, "busy", lambda: read_counted(self._metrics, pids).busy)
        self._try(row, "lookup", self._simulator.lookup_seconds)
        return row

    @staticmethod
    def _try(row: Row, name: str, question: Callable[[], Any]) -> None:
        try:
            value = question()
        except (OSError, RuntimeError, ValueError):
            return  # missing, not 0: servers are being broken here on purpose
        if value is not None:
            row[name] = value

    def _held_by_hub(self) -> int | None:
        """Ask the hub, which knows what the rows only should say."""
        _, text = ask(f"http://{self._stack.env['HUB_BIND']}/metrics", seconds=_PATIENCE)
        for family in text_string_to_metric_families(text.decode()):
            if family.name == "offload_holds":
                return int(family.samples[0].value)
        return None
