"""`python -m loadtests.faults [F1 F7 …]`: strike, check, print the table, write the report."""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence

from loadtests.faults.fault import Fault, Result, all_faults, execute
from loadtests.faults.report import facts, passed, table, targets, write

# Those first that tell most for their minutes, the drains of thousands last: who ends the suite
# early has seen the most. Faults that are not named here come behind.
ORDER = ("F17", "F19", "F12", "F2", "F14", "F16", "F9", "F11", "F5", "F3", "F8", "F15", "F7", "F13",
         "F10", "F4", "F18", "F6", "F1")  # fmt: skip


def in_order(known: Iterable[str]) -> list[str]:
    """Return all faults in the order of a whole suite."""
    return sorted(known, key=lambda id_: ORDER.index(id_) if id_ in ORDER else len(ORDER))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen faults and their controls; return 0 when all is as it must be."""
    known = all_faults()
    options = _options(known).parse_args(arguments)
    chosen = [known[id_.upper()] for id_ in options.faults or in_order(known)]
    results: list[Result] = []
    broken: list[str] = []
    for kind, dose, database, control in _runs(chosen, options):
        name = (
            f"{kind.id} {f'without {control}' if control else 'guarded'} on {database}, {dose} dose"
        )
        print(f"{name} …", file=sys.stderr, flush=True)
        made = facts()  # before: somebody may commit meanwhile
        try:
            result = execute(kind, dose, database=database, seed=options.seed, control=control)
        except Exception:
            # A run that could not be made is missing from the table, and makes the whole fail.
            traceback.print_exc()
            broken.append(name)
            continue
        results.append(result)
        print(table([result]), *targets(result), sep="\n", file=sys.stderr, flush=True)
        if options.report:  # after each: an hour's work must not hang on its last minute
            write([result], known, made=made)
    print(json.dumps([each.as_json() for each in results]) if options.json else table(results))
    for name in broken:
        print(f"missing: {name}")
    return 0 if passed(results) and not broken else 1


def _options(known: dict[str, type[Fault]]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtests.faults", description=__doc__)
    parser.add_argument("faults", nargs="*", metavar="F1", help=f"of {', '.join(known)}")
    parser.add_argument("--dose", choices=("short", "full"), default="short")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--database", choices=("postgresql", "sqlite"), help="only this one")
    parser.add_argument("--no-controls", action="store_true", help="leave the controls out")
    parser.add_argument("--report", action="store_true", help="write docs/faults/report.*")
    return parser


def _runs(
    chosen: Sequence[type[Fault]], options: argparse.Namespace
) -> Iterator[tuple[type[Fault], str, str, str]]:
    for kind in chosen:
        for database in kind.databases:
            # The second database shows that nothing hangs on the first one's locks: with the full
            # dose the suite would take half an hour more.
            first = database == kind.databases[0] or options.database
            if options.database in (None, database):
                yield kind, options.dose if first else "short", database, ""
        for control in () if options.no_controls else kind.controls:
            # Red needs one violation: the short dose shows as much as the full one.
            yield kind, "short", options.database or kind.databases[0], control


if __name__ == "__main__":
    sys.exit(main())
