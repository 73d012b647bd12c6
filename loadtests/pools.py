"""Threads or gevent for the worker? 500 calls at a ten-second carrier, with the database in it.

    python -m loadtests.pools [--calls 500] [--repeats 3]

Each run is a stack of its own (PostgreSQL, Redis, simulator, one worker process). Printed per pool:
seconds from the first create until all calls are in flight and until the last label is there, the
worker's memory and CPU, and the most database connections that all processes had together.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import statistics
import time
from pathlib import Path

import aiohttp
import psycopg

from deploy import strategy as strategies
from deploy.stack import Stack
from loadtests.line import PARCEL

POOLS = ("threads", "gevent")
# Creates at once: enough to be faster than the worker, few enough not to be what is measured.
CREATES_AT_ONCE = 16


@dataclasses.dataclass(slots=True)
class Run:
    """One run's figures: seconds, megabytes, CPU seconds, connections."""

    in_flight_after: float = 0.0
    labelled_after: float = 0.0
    memory: float = 0.0
    cpu: float = 0.0
    connections: int = 0


def worker_of(stack: Stack) -> Path:
    """Return the /proc folder of the worker process itself, below the shell that started it."""
    pid = int((Path(stack.env["RUN_DIR"]) / "worker.ready").read_text())
    return Path(f"/proc/{pid}")


def memory_of(process: Path) -> float:
    """Return the resident memory in MB."""
    status = process.joinpath("status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def cpu_of(process: Path) -> float:
    """Return the CPU seconds used so far; the kernel counts in hundredths."""
    fields = process.joinpath("stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


async def create_all(session: aiohttp.ClientSession, base: str, calls: int) -> None:
    """Create parcels asynchronously."""
    room = asyncio.Semaphore(CREATES_AT_ONCE)
    body = json.dumps(
        {"parcel": PARCEL | {"request_label": False, "request_label_async": True, "shipment": 10}}
    )

    async def create() -> None:
        async with room, session.post(f"{base}/api/v2/parcels", data=body) as response:
            response.raise_for_status()

    await asyncio.gather(*(create() for _ in range(calls)))


async def watch(stack: Stack, session: aiohttp.ClientSession, calls: int) -> Run:
    """Let the calls begin, and note when all are in flight and when all have ended."""
    run, process, started = Run(), worker_of(stack), time.monotonic()
    used = cpu_of(process)
    creating = asyncio.create_task(create_all(session, stack.base_url, calls))
    with psycopg.connect(stack.env["DATABASE_URL"], autocommit=True) as database:
        while not run.labelled_after:
            async with session.get(f"{stack.env['SIMULATOR_URL']}/carriers") as response:
                carriers = (await response.json())["carriers"]
            tortoise = next(carrier for carrier in carriers if carrier["code"] == "tortoise")
            if not run.in_flight_after and tortoise["in_flight"] >= calls:
                run.in_flight_after = time.monotonic() - started
            run.memory = max(run.memory, memory_of(process))
            run.connections = max(run.connections, _one(database, CONNECTIONS) - 1)
            if _one(database, ANNOUNCED) >= calls:
                run.labelled_after = time.monotonic() - started
            await asyncio.sleep(0.05)
    await creating
    run.cpu = cpu_of(process) - used
    return run


CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
ANNOUNCED = "SELECT count(*) FROM parcels_announcement WHERE state = 'announced'"


def _one(database: psycopg.Connection[tuple[int]], query: str) -> int:
    row = database.execute(query.encode()).fetchone()
    return row[0] if row else 0


async def measure(pool: str, calls: int) -> Run:
    """Start a stack with that pool and run once."""
    strategy = strategies.load("asgi-hold")
    worker = strategy.processes["worker"].replace("--pool threads", f"--pool {pool}")
    strategy = dataclasses.replace(strategy, processes={**strategy.processes, "worker": worker})
    # Twice: an account alone has nine tenths of a bulkhead.
    environment = {"WORKER_CONCURRENCY": str(calls), "CARRIER_BULKHEAD": str(2 * calls)}
    with Stack(strategy, database="postgresql", env=environment) as stack:
        authorization = aiohttp.encode_basic_auth(stack.public_key, stack.secret_key)
        async with aiohttp.ClientSession(headers={"Authorization": authorization}) as session:
            return await watch(stack, session, calls)


def main() -> None:
    """Run every pool by turns and print medians with their range."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    runs: dict[str, list[Run]] = {pool: [] for pool in POOLS}
    for _ in range(options.repeats):
        for pool in POOLS:
            runs[pool].append(asyncio.run(measure(pool, options.calls)))
            print(pool, runs[pool][-1], flush=True)
    for pool, seen in runs.items():
        figures = (
            f"{field.name} {statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"
            for field in dataclasses.fields(Run)
            if (values := [getattr(run, field.name) for run in seen])
        )
        print(f"{pool:8} " + ", ".join(figures))


if __name__ == "__main__":
    main()
