"""`make bench-holds`: what holding costs, strategy by strategy, against the figures to reach.

    python -m loadtests.holds [--strategies nginx-accel,asgi-hold] [--requests 2000] [--many 10000]

Each strategy runs with a PostgreSQL of its own, this client on the same machine. A run that failed
is missing from the table, never 0.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import platform
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from deploy.stack import Stack
from deploy.strategy import load, names, why_unavailable
from deploy.welcome import ADDRESS

CONNECTIONS = 200
# Requests a second: three quarters of the limit (200 connections / 10 s), so that no queue forms.
PACE = 15
PACED_SECONDS = 20
# And as many to the carrier alone: what it takes is its own time, and not ours to answer for.
ALONE_SECONDS = 10
# Seconds that the slow carrier takes (its simulator's own setting).
CARRIER = 10.0
# Clients that the app may not have accepted yet: under every backlog on the way (uWSGI's 1,024).
UNACCEPTED = 500
# Seconds until the last one accepted is parked, and its memory with it.
SETTLE = 2.0
PATIENCE = 300.0
# A proxy of the machine has no business with loopback.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
ENVIRONMENT = {
    "WORKER_CONCURRENCY": "2000",
    "CARRIER_BULKHEAD": "20000",
    "WAIT_DEFAULT": "110",
    "CARRIER_CALL_DEADLINE": "30",
}
# For many at once the worker stands still until all are held; then each call is short. What is
# measured is the holding: 10,000 calls of ten seconds would be 10,000 threads in the worker.
MANY_ENVIRONMENT = {
    "CARRIER_BULKHEAD": "20000",
    "SIMULATOR_LATENCY_TORTOISE": "0.5",
    # As `make run` starts them: all 10,000 must be announced before the first one's wait is over.
    "WORKERS": "2",
    # All are accepted first, and the last one is announced some minutes after it came.
    "WAIT_DEFAULT": "500",
    "WAIT_MAXIMUM": "500",
    # All of them are one account's; by default the hub holds a thousand of one.
    "OFFLOAD_MAX_HOLDS": "20000",
    "OFFLOAD_MAX_HOLDS_PER_ACCOUNT": "20000",
}


@dataclass
class Sample:
    """One request: seconds from its intended start, and what came of it."""

    seconds: float
    ok: bool


@dataclass
class Figures:
    """What one strategy showed; None where it was not measured."""

    strategy: str
    ratio: float | None = None
    errors: int | None = None
    carrier_p50_ms: float | None = None
    overhead_p50_ms: float | None = None
    overhead_p99_ms: float | None = None
    cpu_ratio: float | None = None
    holds: int | None = None
    kib_per_hold: float | None = None
    failed: list[str] = field(default_factory=list)


class Client:
    """Posts one parcel per connection, or one after another on a kept one."""

    def __init__(self, stack: Stack) -> None:
        self.port = urlsplit(stack.base_url).port or 80
        login = base64.b64encode(f"{stack.public_key}:{stack.secret_key}".encode()).decode()
        self.base_url = stack.base_url
        self.login = f"Basic {login}"
        self._head = (
            f"POST /api/v2/parcels HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            f"Authorization: {self.login}\r\nContent-Type: application/json\r\n"
        )

    def message(self, wish: str = "request_label") -> bytes:
        parcel = {**ADDRESS, wish: True, "shipment": {"id": 10}}
        body = json.dumps({"parcel": parcel})
        return f"{self._head}Content-Length: {len(body)}\r\n\r\n{body}".encode()

    def newest(self) -> int:
        """Return the newest parcel's id: in a fresh database, how many were accepted."""
        request = urllib.request.Request(  # noqa: S310 # our own stack's address
            f"{self.base_url}/api/v2/parcels?limit=1", headers={"Authorization": self.login}
        )
        with DIRECT.open(request, timeout=PATIENCE) as answer:
            parcels = json.load(answer)["parcels"]
        return int(parcels[0]["id"]) if parcels else 0

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def post(self, message: bytes) -> bool:
        """Post on a connection of its own; say whether the label came (or what was wished)."""
        reader, writer = await self.connect()
        try:
            return await ask(reader, writer, message)
        finally:
            writer.close()


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message: bytes) -> bool:
    """Send and read one answer; True for 200 with an announced or, asynchronously, a new parcel.

    Anything else is an error, and said.
    """
    head = b""
    try:
        writer.write(message)
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").lower().split("\r\n")
        length = next(line for line in lines if line.startswith("content-length:"))
        body = await reader.readexactly(int(length.split(":")[1]))
    except (OSError, asyncio.IncompleteReadError, StopIteration) as error:
        print(f"instead of an answer: {error!r} {head!r}", file=sys.stderr)
        return False
    wanted = b'"id":' if b"request_label_async" in message else b'"status":{"id":1000,'
    if lines[0].split()[1] == "200" and wanted in body:
        return True
    print(f"instead of a label: {lines[0]} {body[:200]!r}", file=sys.stderr)
    return False


async def saturated(client: Client, requests: int, opening: float) -> tuple[float, int]:
    """Keep CONNECTIONS busy for that many requests; return the ratio to the limit, and errors.

    The limit, CONNECTIONS / CARRIER a second, holds while all of them are busy. So the connections
    open one after another, at the limit's own rate, and what is counted is what was answered from
    the last one's opening to the first one's end. (What 200 cost that all come in one instant is
    the scenario `talk`.)
    """
    left = iter(range(requests))
    errors = 0
    answered: list[float] = []
    ended: list[float] = []
    begin = time.monotonic()

    async def keep_asking(number: int) -> None:
        nonlocal errors
        await asyncio.sleep(opening * number / CONNECTIONS)
        reader, writer = await client.connect()
        for _ in left:
            if await ask(reader, writer, client.message()):
                answered.append(time.monotonic())
            else:
                errors += 1
                writer.close()
                reader, writer = await client.connect()
        ended.append(time.monotonic())
        writer.close()

    await asyncio.gather(*(keep_asking(number) for number in range(CONNECTIONS)))
    return rate_between(answered, begin + opening, min(ended)) / (CONNECTIONS / CARRIER), errors


def rate_between(moments: Sequence[float], begin: float, end: float) -> float:
    """Return how many of these moments lie in (begin, end], per second."""
    return sum(begin < moment <= end for moment in moments) / (end - begin)


class Carrier:
    """Asks the slow carrier itself, as the worker does, with nothing of ours between."""

    def __init__(self, stack: Stack) -> None:
        target = urlsplit(stack.env["CARRIER_URL_TORTOISE"])
        self.host, self.port = target.hostname or "127.0.0.1", target.port or 80

    async def post(self, message: bytes) -> bool:
        """Buy a label; say whether it came."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            writer.write(message)
            return (await reader.read()).startswith(b"HTTP/1.1 20")
        finally:
            writer.close()

    def message(self) -> bytes:
        person = {"name": "Alone", "street": "Havenstraat", "house_number": "12"}
        person |= {"postal_code": "3511 AB", "city": "Utrecht", "country": "NL"}
        parcel = {"reference": uuid.uuid4().hex, "product": "10", "weight_g": 500}
        body = json.dumps({**parcel, "receiver": person, "sender": person})
        return (
            f"POST /shipments HTTP/1.1\r\nHost: {self.host}\r\nAuthorization: Bearer house\r\n"
            "Content-Type: application/json\r\nConnection: close\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        ).encode()


async def paced(client: Client | Carrier, seconds: float, *wish: str) -> list[Sample]:
    """Send PACE requests a second, however slowly they are answered; latency from the schedule."""
    begin = time.monotonic() + 0.2

    async def one(number: int) -> Sample:
        intended = begin + number / PACE
        message = client.message(*wish)
        await asyncio.sleep(max(0.0, intended - time.monotonic()))
        ok = await client.post(message)
        return Sample(time.monotonic() - intended, ok)

    return list(await asyncio.gather(*(one(number) for number in range(int(PACE * seconds)))))


async def held_at_once(client: Client, count: int, stack: Stack) -> tuple[int, float]:
    """Hold that many clients; return how many got a label, and KiB per hold of hub and front."""
    before = memory(stack)
    message = client.message()
    workers = [name for name in stack.names if name.startswith("worker")]
    for name in workers:
        stack.pause(name)
    tasks: list[asyncio.Task[bool]] = []
    while (accepted := await asyncio.to_thread(client.newest)) < count:
        room = min(count - len(tasks), UNACCEPTED - (len(tasks) - accepted))
        tasks += [asyncio.create_task(client.post(message)) for _ in range(room)]
        if early := sum(task.done() for task in tasks):
            raise RuntimeError(f"{early} of {len(tasks)} were answered before all were held")
        await asyncio.sleep(0.2)
    await asyncio.sleep(SETTLE)
    highest = memory(stack)
    for name in workers:
        stack.resume(name)
    answers = await asyncio.gather(*tasks)
    return sum(answers), (highest - before) / count


def processes(stack: Stack, names_of: Sequence[str]) -> list[int]:
    """Return the pids of these processes and their descendants."""
    table = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout
    parents = {int(pid): int(parent) for pid, parent in map(str.split, table.splitlines())}
    found = {stack.pid(name) for name in names_of if name in stack.names}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def memory(stack: Stack) -> int:
    """Return what hub and front have in memory, in KiB; the web process where it holds itself."""
    holders = ["hub", "front"] if "hub" in stack.names else ["web", "front"]
    if stack.strategy.name == "uwsgi-offload":
        holders.append("web")
    pids = ",".join(map(str, processes(stack, holders)))
    out = subprocess.run(
        ["ps", "-o", "rss=", "-p", pids], capture_output=True, text=True, check=False
    )
    return sum(map(int, out.stdout.split()))


def cpu(stack: Stack) -> float:
    """Return the CPU seconds of the web workers so far; Linux only, else 0."""
    total = 0.0
    for pid in processes(stack, ["web"]):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which that share lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def measure(name: str, options: argparse.Namespace) -> Figures:
    """Run all that was asked for on one strategy."""
    figures = Figures(name)
    if options.seconds:
        with Stack(name, database="postgresql", env=ENVIRONMENT, stop_seconds=10) as stack:
            client = Client(stack)
            asyncio.run(_measure(client, stack, figures, options))
    if options.many and name in options.many_of.split(","):
        with Stack(name, database="postgresql", env=MANY_ENVIRONMENT, stop_seconds=10) as stack:
            answered, kib = asyncio.run(held_at_once(Client(stack), options.many, stack))
        figures.holds, figures.kib_per_hold = answered, round(kib, 1)
    return figures


async def _measure(
    client: Client, stack: Stack, figures: Figures, options: argparse.Namespace
) -> None:
    async with asyncio.timeout(PATIENCE + options.requests):
        if options.requests:
            ratio, errors = await saturated(client, options.requests, options.opening)
            figures.ratio, figures.errors = round(ratio, 3), errors
        alone = await paced(Carrier(stack), ALONE_SECONDS)
        if not all(sample.ok for sample in alone):
            raise RuntimeError("the carrier itself gave no label")
        start = cpu(stack)
        samples = await paced(client, options.seconds)
        middle = cpu(stack)
        await paced(client, options.seconds, "request_label_async")
        end = cpu(stack)
    carrier = quantile([sample.seconds for sample in alone], 0.5)
    figures.carrier_p50_ms = round(1000 * carrier, 1)
    over = [1000 * (sample.seconds - carrier) for sample in samples if sample.ok]
    figures.overhead_p50_ms = round(quantile(over, 0.5), 1)
    figures.overhead_p99_ms = round(quantile(over, 0.99), 1)
    figures.errors = (figures.errors or 0) + sum(not sample.ok for sample in samples)
    if end > middle:
        figures.cpu_ratio = round((middle - start) / (end - middle), 2)


def table(rows: Sequence[Figures]) -> str:
    """Return the table; what was not measured or failed is a dash."""
    head = (
        "strategy",
        "ratio",
        "errors",
        "carrier ms",
        "p50 ms",
        "p99 ms",
        "cpu",
        "holds",
        "KiB/hold",
    )
    lines: list[tuple[str, ...]] = [head]
    for row in rows:
        values = [v for k, v in asdict(row).items() if k != "failed"]
        lines.append(tuple("—" if value is None else str(value) for value in values))
    return "\n".join("  ".join(f"{cell:>10}" for cell in line) for line in lines)


def card() -> dict[str, object]:
    """Return what the figures depend on: machine, versions, commit, and who else was busy."""
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "commit": commit.stdout.strip(),
        "load_before": os.getloadavg(),
        "carrier_seconds": CARRIER,
        "connections": CONNECTIONS,
        "pace": PACE,
    }


def main() -> int:
    """Measure and print; 1 when a strategy could not be measured."""
    held = [name for name in names() if load(name).family == "is held by a front"]
    parser = argparse.ArgumentParser(prog="python -m loadtests.holds", description=__doc__)
    parser.add_argument("--strategies", default=",".join(n for n in held if n != "scale-out"))
    parser.add_argument("--requests", type=int, default=2000, help="0 leaves the saturated run out")
    parser.add_argument("--opening", type=float, default=CARRIER, help="seconds, of connections")
    parser.add_argument(
        "--seconds",
        type=float,
        default=PACED_SECONDS,
        help="of each paced run; 0 leaves them and the saturated run out",
    )
    parser.add_argument("--many", type=int, default=10_000, help="holds at once; 0 leaves it out")
    parser.add_argument("--many-of", default="nginx-accel,uwsgi-offload,asgi-hold")
    parser.add_argument("--output", type=Path, default=Path(".run/bench-holds.json"))
    options = parser.parse_args()
    result: dict[str, object] = {"card": card()}
    rows = []
    for name in options.strategies.split(","):
        if reason := why_unavailable(load(name)):
            print(f"{name}: left out, {reason}", file=sys.stderr)
            continue
        try:
            rows.append(measure(name, options))
        except Exception as error:
            rows.append(Figures(name, failed=[repr(error)]))
            print(f"{name}: failed, {error!r}", file=sys.stderr)
        print(table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    result["figures"] = [asdict(row) for row in rows]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=2) + "\n")
    print(table(rows))
    return int(any(row.failed for row in rows))


if __name__ == "__main__":
    sys.exit(main())
