"""`make bench-data`: does a million parcels cost more than a thousand?

Two databases in one PostgreSQL of our own, measured in turn, so that whatever else the machine does
meets both. Prints the ratios; ends with 1 where the target is missed.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from statistics import median

from deploy.plan import ROOT
from deploy.stack import Stack
from deploy.stores import PostgresServer, StoreMissingError, postgresql_programs
from loadtests import machine

# What a million may cost of a thousand's: lists, polls and claims that read an index grow by less.
MOST = 1.5
# Lists have pages from here on: fewer can't be measured.
SMALL = 1_000
# Calls of each operation in a round.
REPEATS = 100

# Of one round: by operation, milliseconds of the whole and of its queries.
Round = Mapping[str, Mapping[str, float]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill both, measure in turn, print; return the exit status."""
    parser = argparse.ArgumentParser(prog="make bench-data", description=__doc__)
    parser.add_argument("--large", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    try:
        postgresql_programs()
    except StoreMissingError as error:
        parser.error(str(error))
    if options.large <= SMALL:
        parser.error(f"--large is compared with {SMALL:,}: more than that")
    card = machine.card()
    print(f"{card['system']}, {card['cores']} x {card['processor']}, commit {card['commit']}")
    counts = (SMALL, options.large)
    with ExitStack() as opened:
        # fsync off: filling would take most of the time; what is measured writes next to nothing.
        postgresql = opened.enter_context(PostgresServer(fsync=False))
        stacks = {}
        for count in counts:
            url = postgresql.create_database(f"bench_{count}")
            # Of a Redis alone: nothing else runs while the database is measured.
            alone = Stack("asgi-hold", database=url, processes=["redis"])
            stacks[count] = stack = opened.enter_context(alone)
            began = time.monotonic()
            _bench(stack, "--fill", str(count))
            print(f"{count:,} parcels filled in {time.monotonic() - began:.0f} s", flush=True)
        rounds: dict[int, list[Round]] = {count: [] for count in counts}
        for _ in range(options.rounds):
            for count, stack in stacks.items():
                rounds[count].append(json.loads(_bench(stack, "--repeats", str(REPEATS))))
    return 0 if print_rounds(counts, *rounds.values()) else 1


def _bench(stack: Stack, *arguments: str) -> str:
    line = [sys.executable, "manage.py", "bench_data", *arguments]
    done = subprocess.run(
        line, cwd=ROOT, env=stack.env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(line)} failed:\n{done.stderr}")
    return done.stdout


def print_rounds(counts: Sequence[int], small: Sequence[Round], large: Sequence[Round]) -> bool:
    """Print medians in milliseconds and the median ratio of the rounds; True within the target."""
    print(f"\n{'operation':26} {counts[0]:>10,} {counts[1]:>10,}  ratio   (queries alone)")
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
