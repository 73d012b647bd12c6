"""`make bench-data`: does a million parcels cost more than a thousand?

Two databases in one PostgreSQL of our own, measured in turn, so that whatever else the machine does
meets both. Prints the ratios; ends with 1 where the target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from deploy.stores import PostgresServer, RedisServer
from loadtests import machine

ROOT = Path(__file__).resolve().parent.parent
# What a million may cost of a thousand's: lists, polls and claims that read an index grow by less.
MOST = 1.5
LEAST_PARCELS = 1_000


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
        return 0 if scale(postgresql, environment, options) else 1


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the options; the defaults are the issue's."""
    parser = argparse.ArgumentParser(prog="make bench-data", description=__doc__)
    parser.add_argument("--small", type=int, default=1_000)
    parser.add_argument("--large", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=100)
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


if __name__ == "__main__":
    sys.exit(main())
