"""`make bench-cost`: a label's processor time and delay, beside another commit's, in turn.

    python -m loadtests.cost [--beside COMMIT] [--strategy nginx-accel] [--repeats 3]

All of ours is counted: web, front, hub, worker, sweeper, Redis, PostgreSQL; not the simulated
carriers, the live page and this program. Each commit runs `deploy.run` of its own, with packages
of its own (from an index, as `make setup` does). Only the ratios mean something: a machine's speed
changes within an hour.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from deploy.env_file import read_env_file
from deploy.plan import ROOT
from deploy.ports import free_port
from deploy.processes import tree
from deploy.readiness import wait_until_ready
from deploy.stack import INHERITED
from deploy.stores import PostgresServer, StoreMissingError, postgresql_programs
from loadtests.arrivals import Burst, Closed, Constant, Schedule
from loadtests.calls import make
from loadtests.fleet import drive
from loadtests.generator import Stream
from loadtests.tables import Table, markdown

SEED = "5392665"
CARRIER = 0.05  # seconds that it takes
PACED, PACED_SECONDS = 15, 20
CLIENTS, CLIENTS_LABELS = 32, 640
BURST = 200
# Shipping methods: of the carrier at CARRIER, and of one that takes ten seconds.
FAST, SLOW = 8, 10
NOT_OURS = ("carriers.simulator", "deploy.live")
# What both commits take of the shell.
KEPT = (*INHERITED, "REDIS_SERVER")
# Seconds: a machine on which any kind of traffic takes longer has another problem.
LONGEST = 120.0


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
        self.login = f"{keys['PUBLIC_KEY']}:{keys['SECRET_KEY']}"

    def processor_seconds(self) -> float:
        """Return what its processes have used until now, those that ended among them."""
        while True:
            every = [*tree(self.run.pid), *tree(self.cluster.child.pid)]
            try:
                return sum(sum(each.cpu_times()[:4]) for each in every if _is_ours(each))
            except psutil.NoSuchProcess:  # its parent has its time now
                continue


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
                # A store that the shell names is the user's own, and must get no labels.
                **{key: os.environ[key] for key in KEPT if key in os.environ},
                "PYTHONPATH": str(checkout),
                "DATABASE_URL": cluster.url,
                "SIMULATOR_LATENCY_POSTNL": str(CARRIER),
            },
            stdout=subprocess.DEVNULL,
        )
        try:
            wait_until_ready(
                f"file {folder / 'demo.env'}",
                seconds=120.0,
                given_up=lambda: "" if run.poll() is None else "make run ended",
            )
            yield Deployment(run, cluster, folder)
        finally:
            run.send_signal(signal.SIGTERM)
            run.wait(120)  # what others need is stopped last, and each may take its time


TRAFFIC: dict[str, tuple[Schedule | Closed, int]] = {
    f"paced at {PACED}/s": (Constant(PACED, PACED_SECONDS), FAST),
    f"{CLIENTS} clients": (Closed(CLIENTS, CLIENTS_LABELS), FAST),
    f"burst of {BURST}": (Burst(BURST), FAST),
    f"burst of {BURST}, carrier at 10 s": (Burst(BURST), SLOW),
}


def measure(deployment: Deployment, port: int) -> dict[str, Cost]:
    """Drive each kind of traffic; the clients' first round warms the processes."""
    costs = {}
    warm = {"warm": TRAFFIC[f"{CLIENTS} clients"]}
    for name, (arrivals, method) in {**warm, **TRAFFIC}.items():
        call = make("label", host=f"127.0.0.1:{port}", login=deployment.login, method=method)
        used = deployment.processor_seconds()
        labels = drive(Stream(name, "127.0.0.1", port, call, arrivals), cap=LONGEST)
        used = deployment.processor_seconds() - used
        if name == "warm":  # as autovacuum does within a minute: plans made for empty tables end
            deployment.cluster.execute("ANALYZE")
        if labels.errors or labels.latency is None:
            raise RuntimeError(f"{name}: not every label came: {labels.errors}")
        costs[name] = Cost(used * 1000 / labels.good, labels.goodput, labels.latency.maximum)
    return costs


def main() -> None:
    """Measure in turn, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.cost", description=__doc__)
    parser.add_argument("--beside", default=SEED, help="a commit")
    parser.add_argument("--strategy", default="nginx-accel")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    try:
        postgresql_programs()
    except StoreMissingError as error:
        parser.error(str(error))
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
                        runs[each].append(measure(deployment, port))
                    sys.stderr.write(f"{each}: {runs[each][-1]}\n")
        finally:
            subprocess.run([*git, "remove", "--force", name], check=True)
    sys.stdout.write(table(runs))


def table(runs: dict[str, list[dict[str, Cost]]]) -> str:
    """Return the medians, each with its range, and what this checkout's are of the other's."""
    rows = []
    units = {"milliseconds": "ms a label", "rate": "labels/s", "slowest": "slowest, s"}
    for traffic in TRAFFIC:
        for field, unit in units.items():
            columns = [
                sorted(getattr(run[traffic], field) for run in every) for every in runs.values()
            ]
            before, now = map(statistics.median, columns)
            cells = [f"{statistics.median(c):.2f} ({c[0]:.2f} to {c[-1]:.2f})" for c in columns]
            rows.append((traffic, unit, *cells, f"{now / before:.2f}"))
    made = Table("Cost", ("traffic", "", *runs, "ratio"), tuple(rows))
    return "\n".join([*markdown(made), ""])


if __name__ == "__main__":
    main()
