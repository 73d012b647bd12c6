"""`python -m loadtests.faults [F1 F7 …]`: strike, check, print the table, write the report."""

import argparse
import fcntl
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from deploy.stores import StoreMissingError
from loadtests.faults.clocks import ClockMissingError
from loadtests.faults.fault import Fault, Result, Run, all_faults, execute, planned
from loadtests.faults.hosts import HostsMissingError
from loadtests.faults.report import facts, passed, table, targets, write
from loadtests.faults.rig import BROKERS, DATABASES

# What a run may lack: it is skipped with its reason, but not in CI.
MISSING = (StoreMissingError, ClockMissingError, HostsMissingError)
MACHINE = Path(tempfile.gettempdir()) / "loadtests-faults.lock"


def in_order(known: Mapping[str, type[Fault]]) -> list[str]:
    """Return all faults, those last whose targets are times: they wait for all other lanes."""
    return sorted(known, key=lambda id_: known[id_].alone)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen faults and their controls; return 0 when all is as it must be."""
    known = all_faults()
    parser = _parser(known)
    options = parser.parse_args(arguments)
    lane, lanes = options.lane
    # Not `choices`: Python 3.11.7 looks there for the empty list, too.
    if unknown := set(options.faults) - set(known):
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    chosen = (options.faults or in_order(known))[lane - 1 :: lanes]
    runs = list(_runs([known[id_] for id_ in chosen], options))
    if not runs:  # else it would pass
        parser.error("no run: not in this lane, on this database, or without this guard")
    results: list[Result] = []
    broken: list[Run] = []
    for run in runs:
        print(f"{run} …", file=sys.stderr, flush=True)
        made = facts()  # before: somebody may commit meanwhile
        try:
            with _machine(alone=known[run.fault].alone):
                result = execute(known[run.fault], run, seed=options.seed)
        except MISSING as reason:
            print(f"skipped: {run}: {reason}", file=sys.stderr, flush=True)
            if os.environ.get("CI") == "true":
                broken.append(run)
            continue
        except Exception:
            # A run that could not be made is missing from the table, and makes the whole fail.
            traceback.print_exc()
            broken.append(run)
            continue
        results.append(result)
        print(table([result]), *targets(result), sep="\n", file=sys.stderr, flush=True)
        if options.report:  # after each: an hour's work must not depend on its last minute
            write([result], known, made=made)
    print(table(results))
    for run in broken:
        print(f"missing: {run}")
    return 0 if passed(results) and not broken else 1


def _parser(known: Mapping[str, type[Fault]]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtests.faults", description=__doc__)
    names = f"of {', '.join(known)}"
    parser.add_argument("faults", nargs="*", metavar="F1", type=str.upper, help=names)
    parser.add_argument("--dose", choices=("short", "full"), default="short")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--database", choices=DATABASES, default="", help="only it")
    parser.add_argument("--broker", choices=tuple(BROKERS), default="", help="instead of a Redis")
    parser.add_argument("--no-controls", action="store_true", help="leave the controls out")
    parser.add_argument("--control", default="", help="only the controls without this guard")
    parser.add_argument(
        "--lane", default="1/1", type=_lane, help="2/3: the second of three that share the work"
    )
    parser.add_argument("--report", action="store_true", help="write docs/faults")
    return parser


def _lane(text: str) -> tuple[int, int]:
    lane, lanes = map(int, text.split("/"))
    if not 1 <= lane <= lanes:
        raise ValueError
    return lane, lanes


def _runs(chosen: Sequence[type[Fault]], options: argparse.Namespace) -> Iterator[Run]:
    for kind in chosen:
        runs = planned(
            kind,
            options.dose,
            only=options.database,
            controls=not options.no_controls,
            broker=options.broker,
        )
        yield from (run for run in runs if options.control in ("", run.control))


@contextmanager
def _machine(*, alone: bool) -> Iterator[None]:
    """Share the machine with other lanes, or wait until it is free and keep it."""
    with MACHINE.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


if __name__ == "__main__":
    sys.exit(main())
