"""Is it worth it? `python -m offload.tests.measure`: waiting clients against three servers.

One web process each, PostgreSQL with its 100 connections; N clients wait ten seconds, while another
one loads a page twenty times a second.
"""

import argparse
import asyncio
import os
import resource
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
import psutil

from offload.tests.processes import (
    PostgresServer,
    Process,
    RedisServer,
    answers_at,
    free_port,
    until,
)

MODULE = "offload.tests.measured"
CLIENTS = [50, 200, 1000, 5000]
# Seconds in which the clients come; two cores take some thousand connections in that.
RAMP = 3.0
PAGES_EACH = 0.05


def command(name, port, clients):
    uvicorn = ["-m", "uvicorn", "--port", str(port), "--log-level", "critical", "--backlog", "8192"]
    return {
        "plain uvicorn": [*uvicorn, f"{MODULE}:application"],
        "gunicorn threads": [
            *("-m", "gunicorn", "--worker-class=gthread", "--workers=1", "--log-level=critical"),
            *(f"--threads={clients + 20}", "--timeout=120", "--backlog=8192"),
            *(f"--worker-connections={clients + 100}", f"--bind=127.0.0.1:{port}"),
            f"{MODULE}:wsgi",
        ],
        "offload, asgi": [*uvicorn, f"{MODULE}:application"],
    }[name]


async def wait(session, url, delay):
    await asyncio.sleep(delay)
    try:
        async with session.get(f"{url}/slow") as answer:
            await answer.read()
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


async def load_pages(session, url, times, failed):
    while True:
        start = time.monotonic()
        try:
            async with session.get(f"{url}/page") as answer:
                await answer.read()
                (times if answer.status == 200 else failed).append(time.monotonic() - start)
        except (aiohttp.ClientError, TimeoutError):
            failed.append(time.monotonic() - start)
        await asyncio.sleep(max(0.0, PAGES_EACH - (time.monotonic() - start)))


def family(process):
    root = psutil.Process(process.pid)
    return [root, *root.children(recursive=True)]


def threads_and_memory(process):
    """Return the threads, and MB of the process and its children (proportional set size)."""
    found = family(process)
    memory = sum(each.memory_full_info().pss for each in found)
    return sum(each.num_threads() for each in found), memory / 1e6


async def measure(process, url, clients, connections):
    timeout = aiohttp.ClientTimeout(total=90)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        await load_once(session, url)
        _, before = threads_and_memory(process)
        times: list[float] = []
        failed: list[float] = []
        pages = asyncio.create_task(load_pages(session, url, times, failed))
        start = time.monotonic()
        waits = [
            asyncio.create_task(wait(session, url, RAMP * n / clients)) for n in range(clients)
        ]
        await asyncio.sleep(RAMP + 4)
        threads, memory = await asyncio.to_thread(threads_and_memory, process)
        open_ = await asyncio.to_thread(connections)
        answered = sum(await asyncio.gather(*waits))
        took = time.monotonic() - start
        pages.cancel()
    cuts = statistics.quantiles(times, n=100) if len(times) > 1 else [float("nan")] * 99
    return {
        "answered": answered,
        "last s": f"{took:.1f}",
        "page p50 ms": f"{cuts[49] * 1000:.0f}",
        "page p99 ms": f"{cuts[98] * 1000:.0f}",
        "pages failed": len(failed),
        "threads": threads,
        "KB a client": f"{(memory - before) * 1000 / clients:.0f}",
        "db connections": open_,
    }


async def load_once(session, url):
    async with session.get(f"{url}/page") as answer:
        await answer.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="*", default=CLIENTS)
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        redis, cluster = RedisServer(folder), PostgresServer(folder)
        try:
            for clients in options.clients:
                for server in ("plain uvicorn", "gunicorn threads", "offload, asgi"):
                    row = one(server, clients, redis, cluster)
                    cells = [str(clients), server, *(str(value) for value in row.values())]
                    sys.stdout.write(f"| {' | '.join(cells)} |\n")
                    sys.stdout.flush()
        finally:
            redis.process.end()
            cluster.process.end()


def one(name, clients, redis, cluster):
    def connections():
        psycopg = __import__("psycopg")
        with psycopg.connect(cluster.url) as connection:
            of_app = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
            return connection.execute(of_app).fetchone()[0] - 1

    environment = {"REDIS_URL": redis.url, "PGPORT": str(cluster.port)}
    environment["HOLDS"] = "1" if name.startswith("offload") else "0"
    port = free_port()
    processes = []
    try:
        web = Process(sys.executable, *command(name, port, clients), environment=environment)
        processes.append(web)
        if environment["HOLDS"] == "1":
            processes.append(Process(sys.executable, "-m", MODULE, environment=environment))
        until(lambda: answers_at(port), what=name, seconds=60)
        return asyncio.run(measure(web, f"http://127.0.0.1:{port}", clients, connections))
    finally:
        for process in processes:
            process.end(signal.SIGKILL)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    main()
