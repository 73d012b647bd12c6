"""`make bench-data`: does a million parcels cost more than a thousand, and what does async cost?

Two databases in one PostgreSQL of our own, measured in turn, so that whatever else the machine does
meets both. Then one server, and two addresses of it in turn: the asynchronous API, and a bare view
that validates and inserts the same row. Prints the ratios; ends with 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import platform
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from deploy.child import Child
from deploy.ports import free_port
from deploy.readiness import wait_until_ready
from deploy.stores import PostgresServer, RedisServer

ROOT = Path(__file__).resolve().parent.parent
# From the issue: what a million may cost of a thousand's, and what async must reach of bare.
MOST = 1.5
LEAST = 0.5
# Connections of the load: two per thread of the server would only queue.
CLIENTS = 8


def main() -> int:
    """Run everything; return the exit status."""
    options = parse(sys.argv[1:])
    print(
        f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, ",
        end="",
    )
    print(f"commit {commit()}, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC", flush=True)
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
    return parser.parse_args(arguments)


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


def commit() -> str:
    """Return what is checked out."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


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
        targets = requests_of(keys["PUBLIC_KEY"], keys["SECRET_KEY"])
        rates: dict[str, list[float]] = {name: [] for name in targets}
        for request in targets.values():
            load(port, request, 1.0)
        for _ in range(options.rounds):
            for name, request in targets.items():
                rates[name].append(load(port, request, options.seconds))
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


def requests_of(public_key: str, secret_key: str) -> dict[str, bytes]:
    """Return the whole requests by name."""
    fields = {
        "name": "Test Receiver",
        "address": "Havenstraat",
        "house_number": "12",
        "city": "Utrecht",
        "postal_code": "3511 AB",
        "country": "NL",
        "email": "a@b.nl",
        "weight": "2.000",
        "order_number": "bench",
    }
    parcel = {**fields, "shipment": {"id": 8}, "request_label_async": True}
    bodies: dict[str, tuple[str, dict[str, object]]] = {
        "async": ("/api/v2/parcels", {"parcel": parcel}),
        "bare": ("/bare/parcels", {**fields, "shipping_method": 8}),
    }
    basic = base64.b64encode(f"{public_key}:{secret_key}".encode()).decode()
    return {name: raw(path, body, basic) for name, (path, body) in bodies.items()}


def raw(path: str, payload: dict[str, object], basic: str) -> bytes:
    """Write a request out."""
    body = json.dumps(payload).encode()
    head = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Basic {basic}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def load(port: int, request: bytes, seconds: float) -> float:
    """Send the request over and over; return how many were answered 200 a second."""
    counts = [0] * CLIENTS
    end = time.monotonic() + seconds

    def client(number: int) -> None:
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            while time.monotonic() < end:
                connection.sendall(request)
                answer = read_answer(connection)
                if not answer.startswith(b"HTTP/1.1 200"):
                    raise RuntimeError(f"not a 200: {answer[:500]!r}")
                counts[number] += 1

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if 0 in counts:
        raise RuntimeError("a client got no answer: a failed run is no measurement")
    return sum(counts) / (time.monotonic() - started)


def read_answer(connection: socket.socket) -> bytes:
    """Read one whole answer that says its length."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += receive(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += receive(connection)
    return head


def receive(connection: socket.socket) -> bytes:
    """Read what is there; the server's end is an error."""
    data = connection.recv(65536)
    if not data:
        raise ConnectionError("the server hung up")
    return data


if __name__ == "__main__":
    sys.exit(main())
