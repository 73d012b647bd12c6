"""`make bench-data`: does a million parcels cost more than a thousand, and what does async cost?

Two databases in one PostgreSQL of our own, measured in turn, so that whatever else the machine does
meets both. Then one server, and two addresses of it in turn: the asynchronous API, and a bare view
that validates and inserts the same row. Prints the ratios; ends with 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from deploy.child import Child
from deploy.ports import free_port
from deploy.readiness import wait_until_ready
from deploy.stores import PostgresServer, RedisServer
from loadtests import fleet, machine
from loadtests.arrivals import Closed
from loadtests.calls import RECEIVER, Call, make, request
from loadtests.generator import Plan, Stream
from loadtests.metrics import OK, UNFINISHED

ROOT = Path(__file__).resolve().parent.parent
# From the issue: what a million may cost of a thousand's, and what async must reach of bare.
MOST = 1.5
LEAST = 0.5
LEAST_PARCELS = 1_000
# Connections of the load: two per thread of the server would only queue.
CLIENTS = 8
# More requests than any server answers in the time given.
ENDLESS = 10**9


def main() -> int:
    """Run everything; return the exit status."""
    options = parse(sys.argv[1:])
    card = machine.card()
    print(
        f"{card['system']}, {card['cores']} x {card['processor']}, Python {card['python']}, ",
        end="",
    )
    print(
        f"commit {card['commit']}, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC", flush=True
    )
    # fsync off: filling would take most of the time, and what is measured writes next to nothing.
    with PostgresServer(fsync=False) as postgresql, RedisServer() as redis:
        environment = {**os.environ, "REDIS_URL": redis.url, **own_settings(postgresql.folder)}
        well = scale(postgresql, environment, options)
        well &= throughput(postgresql, environment, options)
    return 0 if well else 1


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the options; the defaults are the issue's."""
    parser = argparse.ArgumentParser(prog="make bench-data", description=__doc__)
    parser.add_argument("--small", type=int, default=1_000)
    parser.add_argument("--large", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=4, help="of load per round and address")
    options = parser.parse_args(arguments)
    if min(options.small, options.large) < LEAST_PARCELS:
        parser.error(f"lists have pages from {LEAST_PARCELS} parcels on: fewer can't be measured")
    return options


def own_settings(folder: Path) -> dict[str, str]:
    """Return the environment of a deployment without a front and without workers."""
    run_dir = folder.parent / f"{folder.name}-run"
    run_dir.mkdir(exist_ok=True)
    return {
        "DEBUG": "0",
        "DEMO": "1",
        "RUN_DIR": str(run_dir),
        "ALLOWED_HOSTS": "localhost",
        "SECRET_KEY": secrets.token_hex(32),
        "OFFLOAD_SECRET": secrets.token_hex(32),
        "OFFLOAD_BACKEND": "inline",
        "PROMETHEUS_MULTIPROC_DIR": str(run_dir / "metrics"),
    }


def manage(environment: dict[str, str], *arguments: str) -> str:
    """Run manage.py and return what it printed."""
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"manage.py {' '.join(arguments)} failed:\n{done.stderr}")
    return done.stdout


def scale(
    postgresql: PostgresServer, environment: dict[str, str], options: argparse.Namespace
) -> bool:
    """Measure both databases in turn and print a line per operation; True within the target."""
    databases = {}
    for count in (options.small, options.large):
        url = postgresql.create_database(f"bench_{count}")
        databases[count] = {**environment, "DATABASE_URL": url}
        started = time.monotonic()
        manage(databases[count], "migrate", "--verbosity", "0")
        manage(databases[count], "bench_data", "--fill", str(count))
        print(f"{count:,} parcels filled in {time.monotonic() - started:.0f} s", flush=True)
    rounds: dict[int, list[dict[str, dict[str, float]]]] = {count: [] for count in databases}
    for _ in range(options.rounds):
        for count, settings in databases.items():
            printed = manage(settings, "bench_data", "--repeats", str(options.repeats))
            rounds[count].append(json.loads(printed))
    return print_scale(rounds, options)


def print_scale(
    rounds: dict[int, list[dict[str, dict[str, float]]]], options: argparse.Namespace
) -> bool:
    """Print medians in milliseconds and the median ratio of the rounds."""
    small, large = rounds[options.small], rounds[options.large]
    print(f"\n{'operation':26} {options.small:>10,} {options.large:>10,}  ratio   (queries alone)")
    well = True
    for name in small[0]:
        line = f"{name:26}"
        for part in ("whole", "queries"):
            pairs = [(a[name][part], b[name][part]) for a, b in zip(small, large, strict=True)]
            ratio = median(b / a for a, b in pairs)
            low, high = median(a for a, _ in pairs), median(b for _, b in pairs)
            line += f" {low:7.2f} ms {high:7.2f} ms  {ratio:5.2f}"
            well &= ratio <= MOST or part == "queries"
        print(line)
    print(f"target: at most {MOST} x: {'reached' if well else 'MISSED'}", flush=True)
    return well


def throughput(
    postgresql: PostgresServer, environment: dict[str, str], options: argparse.Namespace
) -> bool:
    """Load both addresses of one server in turn; True when async reaches its share of bare."""
    url = postgresql.create_database("bench_load")
    accounts = Path(environment["RUN_DIR"]) / "accounts.env"
    settings = {
        **environment,
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "shipping.benchmark.settings",
    }
    manage(settings, "migrate", "--verbosity", "0")
    manage(settings, "demo_account", "--env-file", str(accounts))
    keys = dict(line.split("=", 1) for line in accounts.read_text().split())
    with server(settings) as port:
        targets = calls_of(f"{keys['PUBLIC_KEY']}:{keys['SECRET_KEY']}")
        rates: dict[str, list[float]] = {name: [] for name in targets}
        for call in targets.values():
            load(port, call, 1.0)
        for _ in range(options.rounds):
            for name, call in targets.items():
                rates[name].append(load(port, call, options.seconds))
    ratios = [a / b for a, b in zip(rates["async"], rates["bare"], strict=True)]
    print("\nrequest_label_async against a bare view, gunicorn gthread, 1 process of 8 threads")
    for name, values in rates.items():
        print(
            f"{name:6} {median(values):7.0f} requests/s   ({', '.join(f'{v:.0f}' for v in values)})"
        )
    well = median(ratios) >= LEAST
    print(
        f"ratio {median(ratios):.2f}, target: at least {LEAST}: {'reached' if well else 'MISSED'}"
    )
    return well


@contextmanager
def server(environment: dict[str, str]) -> Iterator[int]:
    """Run gunicorn and yield its port."""
    port = free_port()
    command = (
        f"{sys.executable} -m gunicorn shipping.wsgi:application --bind 127.0.0.1:{port}"
        " --worker-class gthread --workers 1 --threads 8 --log-level warning --no-control-socket"
    )
    log = Path(environment["RUN_DIR"]) / "web.log"
    child = Child("web", command, log=log, env=environment, cwd=ROOT)
    child.start()
    try:
        question = f"GET http://localhost:{port}/readyz"
        wait_until_ready(question, seconds=60, given_up=child.cause_of_death)
        yield port
    finally:
        child.kill()


def calls_of(login: str) -> dict[str, Call]:
    """Return the requests by name."""
    fields = RECEIVER | {"email": "a@b.nl", "order_number": "bench"}
    bare = json.dumps({**fields, "shipping_method": 8}).encode()
    return {
        "async": make("async", host="localhost", login=login),
        "bare": Call(request("/bare/parcels", bare, "localhost", login=login), "success"),
    }


def load(port: int, call: Call, seconds: float) -> float:
    """Send the request over and over; return how many were answered well a second."""
    stream = Stream("load", "127.0.0.1", port, call, Closed(CLIENTS, ENDLESS))
    _, report, _ = fleet.send(lambda start: Plan((stream,), start, cap=seconds))
    outcomes = Counter(sample.outcome for sample in report.samples)
    good, cut = outcomes.pop(OK, 0), outcomes.pop(UNFINISHED, 0)
    if outcomes or not good or cut > CLIENTS:
        raise RuntimeError(f"{dict(outcomes)}, {good} good: a failed run is no measurement")
    return good / seconds


if __name__ == "__main__":
    sys.exit(main())
