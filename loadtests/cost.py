"""`make bench-cost`: processor time for a label, this checkout beside another commit's, in turn.

    python -m loadtests.cost [--beside COMMIT] [--strategy nginx-accel] [--repeats 3]

All of ours is counted: web, front, hub, worker, sweeper, Redis, PostgreSQL; not the simulated
carriers, the live page and this program. Each commit runs `deploy.run` of its own, with packages
of its own (from an index, as `make setup` does). Only the ratios mean something: a machine's speed
changes within an hour.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import psutil

from deploy.env_file import read_env_file
from deploy.plan import ROOT
from deploy.ports import free_port
from deploy.readiness import wait_until_ready
from deploy.stores import PostgresServer

SEED = "5392665"
# Seconds that the carrier takes.
CARRIER = 0.05
PACED, PACED_SECONDS = 15, 20
CLIENTS, CLIENTS_LABELS = 32, 640
BURST = 200
NOT_OURS = ("carriers.simulator", "deploy.live")
BODY = {
    "parcel": {
        "name": "Test Receiver", "address": "Havenstraat", "house_number": "12", "city": "Utrecht",
        "postal_code": "3511 AB", "country": "NL", "shipment": {"id": 8}, "request_label": True,
    }
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cost:
    """What some labels took: milliseconds of processor for each, how many a second, the slowest."""

    milliseconds: float
    rate: float
    slowest: float


class Deployment:
    """A commit's own processes, started by its own `make run`."""

    def __init__(self, run: subprocess.Popen[bytes], cluster: PostgresServer, folder: Path) -> None:
        self.run, self.cluster = run, cluster
        keys = read_env_file(folder / "accounts.env")
        login = aiohttp.encode_basic_auth(keys["PUBLIC_KEY"], keys["SECRET_KEY"])
        self.headers = {"Authorization": login}

    def processor_seconds(self) -> float:
        """Return what its processes have used until now, those that ended among them."""
        roots = [psutil.Process(self.run.pid), psutil.Process(self.cluster.child.pid)]
        every = [process for root in roots for process in [root, *root.children(recursive=True)]]
        return sum(sum(each.cpu_times()[:4]) for each in every if self._is_ours(each))

    @staticmethod
    def _is_ours(process: psutil.Process) -> bool:
        line = " ".join(process.cmdline())
        return not any(name in line for name in NOT_OURS)


def install(checkout: Path) -> None:
    """Give a checkout the packages that it was locked with."""
    uv = str(Path(sys.executable).with_name("uv"))
    python = str(checkout / ".venv/bin/python")
    for command in (
        ["venv", "--quiet", "--python", sys.executable, str(checkout / ".venv")],
        ["pip", "install", "--quiet", "--python", python, "-r", "requirements.txt"],
    ):
        subprocess.run([uv, *command], cwd=checkout, check=True)


@contextmanager
def deployed(checkout: Path, strategy: str, port: int) -> Iterator[Deployment]:
    """Start everything of a checkout; end it by the signal that a person's Ctrl-C is."""
    with tempfile.TemporaryDirectory(prefix="cost-") as name, PostgresServer() as cluster:
        folder = Path(name)
        python = sys.executable if checkout == ROOT else str(checkout / ".venv/bin/python")
        command = [python, "-m", "deploy.run", "--strategy", strategy]
        run = subprocess.Popen(
            [*command, "--port", str(port), "--run-dir", name],
            cwd=checkout,
            env={
                **os.environ,
                "PYTHONPATH": str(checkout),
                "DATABASE_URL": cluster.create_database("cost"),
                "SIMULATOR_LATENCY_POSTNL": str(CARRIER),
            },
            stdout=subprocess.DEVNULL,
        )
        try:
            dead = "make run ended"
            wait_until_ready(
                f"file {folder / 'demo.env'}",
                seconds=120.0,
                given_up=lambda: "" if run.poll() is None else dead,
            )
            yield Deployment(run, cluster, folder)
        finally:
            run.send_signal(signal.SIGTERM)
            run.wait(60)


async def buy(session: aiohttp.ClientSession, url: str) -> float:
    """Buy one label; return the seconds."""
    begun = time.monotonic()
    async with session.post(url, json=BODY) as response:
        parcel = (await response.json())["parcel"]
    if not parcel["tracking_number"]:
        raise RuntimeError(f"{response.status} without a label: {parcel['status']}")
    return time.monotonic() - begun


async def paced(session: aiohttp.ClientSession, url: str) -> list[float]:
    """Buy at a steady rate."""
    tasks = []
    begun = time.monotonic()
    for number in range(PACED * PACED_SECONDS):
        await asyncio.sleep(begun + number / PACED - time.monotonic())
        tasks.append(asyncio.create_task(buy(session, url)))
    return await asyncio.gather(*tasks)


async def closed(session: aiohttp.ClientSession, url: str) -> list[float]:
    """Have each of the clients buy one label after the other."""

    async def client() -> list[float]:
        return [await buy(session, url) for _ in range(CLIENTS_LABELS // CLIENTS)]

    groups = await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return [seconds for group in groups for seconds in group]


async def burst(session: aiohttp.ClientSession, url: str) -> list[float]:
    """Buy all at once."""
    return await asyncio.gather(*(buy(session, url) for _ in range(BURST)))


Traffic = Callable[[aiohttp.ClientSession, str], Awaitable[list[float]]]
TRAFFIC: dict[str, Traffic] = {
    f"paced at {PACED}/s": paced,
    f"{CLIENTS} clients": closed,
    f"burst of {BURST}": burst,
}


async def measure(deployment: Deployment, port: int) -> dict[str, Cost]:
    """Drive each kind of traffic; a first burst warms the processes."""
    url = f"http://127.0.0.1:{port}/api/v2/parcels"
    costs = {}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=deployment.headers, connector=connector) as session:
        await closed(session, url)
        for name, traffic in TRAFFIC.items():
            used, begun = deployment.processor_seconds(), time.monotonic()
            times = await traffic(session, url)
            took = time.monotonic() - begun
            used = deployment.processor_seconds() - used
            costs[name] = Cost(used * 1000 / len(times), len(times) / took, max(times))
    return costs


def main() -> None:
    """Measure in turn, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.cost", description=__doc__)
    parser.add_argument("--beside", default=SEED, help="a commit")
    parser.add_argument("--strategy", default="nginx-accel")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="beside-") as name:
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", name, options.beside], check=True)
        try:
            install(Path(name))
            checkouts = {options.beside: Path(name), "this": ROOT}
            runs: dict[str, list[dict[str, Cost]]] = {each: [] for each in checkouts}
            for _ in range(options.repeats):
                for each, checkout in checkouts.items():
                    port = free_port()
                    with deployed(checkout, options.strategy, port) as deployment:
                        runs[each].append(asyncio.run(measure(deployment, port)))
                    sys.stderr.write(f"{each}: {runs[each][-1]}\n")
        finally:
            subprocess.run([*git, "remove", "--force", name], check=True)
    sys.stdout.write(table(runs))


def table(runs: dict[str, list[dict[str, Cost]]]) -> str:
    """Return the medians, each with its range, and what this checkout's are of the other's."""
    lines = ["| traffic | | " + " | ".join(runs) + " | ratio |", "|---|---|---|---|---|"]
    units = {"milliseconds": "ms a label", "rate": "labels/s", "slowest": "slowest, s"}
    for traffic in TRAFFIC:
        for field, unit in units.items():
            columns = [
                sorted(getattr(run[traffic], field) for run in every) for every in runs.values()
            ]
            before, now = map(statistics.median, columns)
            cells = [f"{statistics.median(c):.2f} ({c[0]:.2f} to {c[-1]:.2f})" for c in columns]
            lines.append(f"| {traffic} | {unit} | {' | '.join(cells)} | {now / before:.2f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
