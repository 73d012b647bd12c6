"""Is it worth it? `python -m offload.tests.measure`: waiting clients against three servers.

One web process each, PostgreSQL with its 100 connections; N clients come at 200 a second and wait
thirty seconds, while another one loads a page twenty times a second. With `--beside FOLDER` the
offload in that folder is held against this one, in turn: `git worktree add FOLDER <commit>`.
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

HERE = Path(__file__).parent
MODULE = "measured"
CLIENTS = [50, 200, 1000, 5000]
# Why 200 a second: two cores bear it, so this is about waiting and not about a burst.
RATE = 200
# Longer than 5,000 clients take to come.
SECONDS = 30
PAGES_EACH = 0.05
OFFLOAD, KEEPS = "offload, asgi", "gunicorn threads, view as written"
# As written, a view that has asked the database keeps its connection while it waits; the first two
# close it before.
SERVERS = ("plain uvicorn", "gunicorn threads", KEEPS, OFFLOAD)


def command(name, port, clients):
    uvicorn = ["-m", "uvicorn", "--port", str(port), "--log-level", "critical", "--backlog", "8192"]
    uvicorn += ["--app-dir", str(HERE)]
    if not name.startswith("gunicorn"):
        return [*uvicorn, f"{MODULE}:application"]
    return [
        *("-m", "gunicorn", "--worker-class=gthread", "--workers=1", "--log-level=critical"),
        *(f"--threads={clients + 20}", "--timeout=120", "--backlog=8192"),
        *(f"--worker-connections={clients + 100}", f"--bind=127.0.0.1:{port}"),
        *("--pythonpath", str(HERE), f"{MODULE}:wsgi"),
    ]


async def wait(session, url, delay):
    """Return the seconds until the answer; None where it isn't the outcome."""
    await asyncio.sleep(delay)
    start = time.monotonic()
    try:
        async with session.get(f"{url}/slow") as answer:
            await answer.read()
            return time.monotonic() - start if answer.status == 200 else None
    except (aiohttp.ClientError, TimeoutError):
        return None


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


def seconds_used(process):
    """Return the processor time of the process and its children."""
    return sum(sum(each.cpu_times()[:2]) for each in family(process))


async def measure(process, url, clients, connections):
    timeout = aiohttp.ClientTimeout(total=90)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        await load_once(session, url)
        _, before = threads_and_memory(process)
        used = seconds_used(process)
        times: list[float] = []
        failed: list[float] = []
        pages = asyncio.create_task(load_pages(session, url, times, failed))
        start = time.monotonic()
        waits = [asyncio.create_task(wait(session, url, n / RATE)) for n in range(clients)]
        await asyncio.sleep(clients / RATE + 4)
        threads, memory = await asyncio.to_thread(threads_and_memory, process)
        open_ = await asyncio.to_thread(connections)
        answered = [seconds for seconds in await asyncio.gather(*waits) if seconds is not None]
        took = time.monotonic() - start
        used = seconds_used(process) - used
        pages.cancel()
    cuts = statistics.quantiles(times, n=100) if len(times) > 1 else [float("nan")] * 99
    return {
        "answered": len(answered),
        "last s": f"{took:.1f}",
        "p50 over the work, ms": over(answered),
        "page p50 ms": f"{cuts[49] * 1000:.0f}",
        "page p99 ms": f"{cuts[98] * 1000:.0f}",
        "pages failed": len(failed),
        "threads": threads,
        "KB a client": f"{(memory - before) * 1000 / clients:.0f}",
        "web CPU ms a client": f"{used * 1000 / clients:.1f}",
        "db connections": open_,
    }


def over(answered):
    """Return the median that was waited beyond the work's own seconds, in milliseconds."""
    return f"{(statistics.median(answered) - SECONDS) * 1000:.0f}" if answered else "-"


async def load_once(session, url):
    async with session.get(f"{url}/page") as answer:
        await answer.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="*", default=CLIENTS)
    parser.add_argument("--server", choices=SERVERS, help="this one alone")
    parser.add_argument("--beside", default="", help="a folder with another offload")
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    servers = [options.server] if options.server else list(SERVERS)
    if options.beside:
        servers = [options.beside, OFFLOAD]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        redis, cluster = RedisServer(folder), PostgresServer(folder)
        said = 0
        try:
            for clients in options.clients:
                for server in servers * options.repeats:
                    row = one(server, clients, redis, cluster)
                    if not said:
                        said = sys.stdout.write(f"| clients | server | {' | '.join(row)} |\n")
                    cells = [str(clients), server, *(str(value) for value in row.values())]
                    sys.stdout.write(f"| {' | '.join(cells)} |\n")
                    sys.stdout.flush()
        finally:
            redis.process.end()
            cluster.process.end()


def one(name, clients, redis, cluster):
    def connections():
        psycopg = __import__("psycopg")
        of_app = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        try:
            with psycopg.connect(cluster.url) as connection:
                return connection.execute(of_app).fetchone()[0] - 1
        except psycopg.OperationalError:
            return "all 100"

    environment = {"REDIS_URL": redis.url, "PGPORT": str(cluster.port), "SECONDS": str(SECONDS)}
    environment |= {"HOLDS": "01"[name not in SERVERS[:3]], "KEEPS": "01"[name == KEEPS]}
    # The folder that holds `offload`: this one's, or another commit's.
    ours = str(HERE.parents[1])
    folder = ours if name in SERVERS else name
    environment["PYTHONPATH"] = folder
    port = free_port()
    processes = []
    try:
        web = Process(
            sys.executable,
            *command(name, port, clients),
            environment=environment,
            directory=folder,  # `-m` looks there first
        )
        processes.append(web)
        if environment["HOLDS"] == "1":
            environment["PYTHONPATH"] = ours
            worker = Process(sys.executable, str(HERE / "measured.py"), environment=environment)
            processes.append(worker)
        until(lambda: answers_at(port), what=name, seconds=60)
        return asyncio.run(measure(web, f"http://127.0.0.1:{port}", clients, connections))
    finally:
        for process in processes:
            process.end(signal.SIGKILL)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    main()
