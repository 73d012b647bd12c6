"""`make bench-holds`: what holding costs, strategy by strategy, against the figures to reach.

    python -m loadtests.holds [--strategies nginx-accel,asgi-hold] [--requests 2000] [--many 10000]

Each strategy runs with a PostgreSQL of its own, this client on the same machine. A run that failed
is missing from the table, never 0.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from deploy.loopback import ask_json
from deploy.processes import Processes
from deploy.stack import Stack
from deploy.strategy import load, names, why_unavailable
from loadtests import fleet, machine
from loadtests.arrivals import Closed, Constant, Schedule
from loadtests.calls import JUDGES, Call, make, request
from loadtests.deployment import login
from loadtests.generator import Plan, Stream
from loadtests.metrics import OK, Sample, percentile, validity
from loadtests.wire import Wire

CONNECTIONS = 200
# Requests a second: three quarters of the limit (200 connections / 10 s), so that no queue forms.
PACE = 15
PACED_SECONDS = 20
# And as many to the carrier alone: what it takes is its own time, and not ours to answer for.
ALONE_SECONDS = 10
# Seconds that the slow carrier takes (its simulator's own setting), and its shipping method.
CARRIER = 10.0
METHOD = 10
# Clients that the app may not have accepted yet: under every backlog on the way (uWSGI's 1,024).
UNACCEPTED = 500
# Seconds until the last one accepted is parked, and its memory with it.
SETTLE = 2.0
PATIENCE = 300.0
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


class Shop:
    """The shop's side of a stack."""

    def __init__(self, stack: Stack) -> None:
        self._base_url = stack.base_url
        self._login = login(stack)
        self.host, self.port = address(stack.base_url)

    def call(self, kind: str = "label") -> Call:
        """Return the request for a parcel of the slow carrier."""
        return make(kind, host=self.host, login=self._login, method=METHOD)

    def send(self, kind: str, arrivals: Schedule | Closed) -> list[Sample]:
        """Send parcels and return what came of each."""
        return send([Stream(kind, self.host, self.port, self.call(kind), arrivals)])

    def newest(self) -> int:
        """Return the newest parcel's id: in a fresh database, how many were accepted."""
        url = f"{self._base_url}/api/v2/parcels?limit=1"
        parcels = ask_json(url, login=self._login, seconds=PATIENCE)["parcels"]
        return int(parcels[0]["id"]) if parcels else 0

    async def buy(self) -> str:
        """Ask for a label on a connection of its own; return the outcome."""
        call = self.call()
        wire = await Wire.connect(self.host, self.port)
        try:
            return JUDGES[call.judge](await wire.ask(call.request))
        except ConnectionError as error:
            return repr(error)
        finally:
            wire.close()


def address(url: str) -> tuple[str, int]:
    """Return host and port of a URL."""
    parts = urlsplit(url)
    return parts.hostname or "127.0.0.1", parts.port or 80


def send(streams: Iterable[Stream]) -> list[Sample]:
    """Send from a process of its own; RuntimeError where it was late: then it is what we measure.

    The first sends of a closed loop are due in one instant, and never on time.
    """
    streams = tuple(streams)
    _, report, interrupted = fleet.send(lambda start: Plan(streams, start, cap=PATIENCE))
    if interrupted:
        raise KeyboardInterrupt
    paced = [stream for stream in streams if not isinstance(stream.arrivals, Closed)]
    if paced and not (judged := validity(report.samples, ())).valid:
        raise RuntimeError("; ".join(judged.reasons))
    return report.samples


def alone(stack: Stack, seconds: float) -> list[Sample]:
    """Ask the slow carrier itself, as the worker does, with nothing of ours between."""
    host, port = address(stack.env["CARRIER_URL_TORTOISE"])
    once = Constant(rate=1, seconds=1)
    count = int(PACE * seconds)
    # A stream for each: two purchases of one reference could be one to a carrier.
    return send(
        Stream("carrier", host, port, purchase(host), once, begin=number / PACE)
        for number in range(count)
    )


def purchase(host: str) -> Call:
    """Return a purchase in the slow carrier's own dialect."""
    person = {"name": "Alone", "street": "Havenstraat", "house_number": "12"}
    person |= {"postal_code": "3511 AB", "city": "Utrecht", "country": "NL"}
    parcel = {"reference": uuid.uuid4().hex, "product": "10", "weight_g": 500}
    body = json.dumps({**parcel, "receiver": person, "sender": person}).encode()
    return Call(request("/shipments", body, host, bearer="house"), "success")


def saturated(shop: Shop, requests: int, opening: float) -> tuple[float, list[Sample]]:
    """Keep CONNECTIONS busy for that many requests; return the ratio to the limit, and what came.

    The limit, CONNECTIONS / CARRIER a second, holds while all of them are busy. So the connections
    open one after another, at the limit's own rate, and what is counted is what was answered from
    the last one's opening to the last request: then the first one has nothing left to ask. (What
    200 cost that all come in one instant is the scenario `talk`.)
    """
    samples = shop.send("label", Closed(CONNECTIONS, requests, opening))
    begin = min(sample.intended for sample in samples) + opening
    end = max(sample.intended for sample in samples)
    answered = [sample.end for sample in samples if sample.ok]
    return rate_between(answered, begin, end) / (CONNECTIONS / CARRIER), samples


def rate_between(moments: Sequence[float], begin: float, end: float) -> float:
    """Return how many of these moments lie in (begin, end], per second."""
    return sum(begin < moment <= end for moment in moments) / (end - begin)


async def held_at_once(shop: Shop, count: int, stack: Stack) -> tuple[int, float]:
    """Hold that many clients; return how many got a label, and KiB per hold of hub and front."""
    holders = holders_of(stack)
    before = megabytes(holders)
    workers = [name for name in stack.names if name.startswith("worker")]
    for name in workers:
        stack.pause(name)
    tasks: list[asyncio.Task[str]] = []
    while (accepted := await asyncio.to_thread(shop.newest)) < count:
        room = min(count - len(tasks), UNACCEPTED - (len(tasks) - accepted))
        tasks += [asyncio.create_task(shop.buy()) for _ in range(room)]
        if early := [task.result() for task in tasks if task.done()]:
            raise RuntimeError(f"answered before all were held: {Counter(early)}")
        await asyncio.sleep(0.2)
    await asyncio.sleep(SETTLE)
    highest = await asyncio.to_thread(megabytes, holders)
    for name in workers:
        stack.resume(name)
    outcomes = Counter(await asyncio.gather(*tasks))
    say_errors(outcomes)
    return outcomes[OK], (highest - before) * 1e6 / 1024 / count


def holders_of(stack: Stack) -> Processes:
    """Return hub and front; the web process where it holds itself."""
    holders = ["hub", "front"] if "hub" in stack.names else ["web", "front"]
    if stack.strategy.name == "uwsgi-offload":
        holders.append("web")
    return Processes({name: stack.pid(name) for name in holders if name in stack.names})


def megabytes(holders: Processes) -> float:
    """Return the memory of all of them."""
    return sum(holders.memory().values())


def say_errors(outcomes: Counter[str]) -> None:
    """Print what came instead of a label: a figure says how many, not what."""
    for outcome, count in outcomes.items():
        if outcome != OK:
            print(f"instead of a label, {count} times: {outcome}", file=sys.stderr)


def measure(name: str, options: argparse.Namespace) -> Figures:
    """Run all that was asked for on one strategy."""
    figures = Figures(name)
    if options.seconds:
        with Stack(name, database="postgresql", env=ENVIRONMENT, stop_seconds=10) as stack:
            _measure(stack, figures, options)
    if options.many and name in options.many_of.split(","):
        with Stack(name, database="postgresql", env=MANY_ENVIRONMENT, stop_seconds=10) as stack:
            answered, kib = asyncio.run(held_at_once(Shop(stack), options.many, stack))
        figures.holds, figures.kib_per_hold = answered, round(kib, 1)
    return figures


def _measure(stack: Stack, figures: Figures, options: argparse.Namespace) -> None:
    shop = Shop(stack)
    asked: list[Sample] = []
    if options.requests:
        ratio, asked = saturated(shop, options.requests, options.opening)
        figures.ratio = round(ratio, 3)
    own = alone(stack, ALONE_SECONDS)
    if not all(sample.ok for sample in own):
        raise RuntimeError("the carrier itself gave no label")
    web = Processes({"web": stack.pid("web")})
    paced = Constant(PACE, options.seconds)
    web.spent()
    held = shop.send("label", paced)
    held_cpu = web.spent()["web"]
    shop.send("async", paced)
    async_cpu = web.spent()["web"]
    carrier = percentile(sorted(sample.latency for sample in own), 0.5)
    over = sorted(1000 * (sample.latency - carrier) for sample in held if sample.ok)
    figures.carrier_p50_ms = round(1000 * carrier, 1)
    figures.overhead_p50_ms = round(percentile(over, 0.5), 1)
    figures.overhead_p99_ms = round(percentile(over, 0.99), 1)
    outcomes = Counter(sample.outcome for sample in (*asked, *held))
    figures.errors = outcomes.total() - outcomes[OK]
    say_errors(outcomes)
    if async_cpu:
        figures.cpu_ratio = round(held_cpu / async_cpu, 2)


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
    """Return what the figures depend on."""
    return {
        **machine.card(),
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
