"""Load tests: `python -m loadtests run talk outage --strategies asgi-hold,nginx-accel --quick`.

    list                     scenarios and their parameters (strategies: `make strategies`)
    run SCENARIO...          measure; --PARAMETER VALUE overrides a scenario's own
    suite quick|full         what `make bench` and `make bench-full` run
    report RESULTS.json...   write the report again, of one or several runs' raw data
    pages                    write the pages' tables from the newest committed result

Exit codes: 0 all measured · 1 some run is missing or invalid, or bought a label twice · 2 used
wrongly · 130 interrupted (what was measured until then is kept).
"""

import argparse
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deploy.stores import StoreMissingError
from deploy.strategy import StrategyError
from loadtests import results as raw
from loadtests import scenario, suite
from loadtests.bench import WORKERS, Bench, Wishes, available, jobs
from loadtests.pages import PAGE, write_page
from loadtests.report import write_report
from loadtests.scenario import Scenario, ScenarioError
from loadtests.screen import Screen

RESULTS = Path(__file__).parent / "results"
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; return the exit code."""
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    try:
        if options.command == "run":
            return _bench_all([_planned(options, _overrides(rest))], options.out)
        if rest:
            parser.error(f"unknown: {' '.join(rest)}")
        if options.command == "suite":
            parts = suite.plan(options.form, available(()), options.note)
            return _bench_all(parts, options.out)
        return {"list": _list, "report": _report, "pages": _pages}[options.command](options)
    except (
        ScenarioError, StrategyError, StoreMissingError, json.JSONDecodeError, FileNotFoundError,
    ) as error:  # fmt: skip
        print(f"loadtests: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # before the first run
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="scenarios and their parameters")
    _add_run(commands.add_parser("run", help="measure", allow_abbrev=False))
    suite = commands.add_parser("suite", help="what make bench and make bench-full run")
    suite.add_argument("form", choices=("quick", "full"))
    suite.add_argument("--out", type=Path, help="folder for the results and the report")
    suite.add_argument("--note", default="", help="printed in the report")
    again = commands.add_parser("report", help="write the report of raw data")
    again.add_argument("results", nargs="+", type=Path)
    again.add_argument("--out", type=Path, help="folder (default: that of the first)")
    commands.add_parser("pages", help="write the pages' tables")
    return parser


def _add_run(run: argparse.ArgumentParser) -> None:
    run.add_argument("scenarios", nargs="+", help="names, or paths of .toml files")
    run.add_argument("--strategies", default="", help="comma-separated (default: all available)")
    run.add_argument("--quick", action="store_true", help="each scenario's quick form")
    run.add_argument("--repeats", type=int, default=1)
    run.add_argument("--seed", type=int, default=1, help="of the order of the runs")
    run.add_argument("--workers", type=int, default=WORKERS, help="web processes; 0: as they come")
    run.add_argument("--generators", type=_positive, default=1, help="processes that send")
    run.add_argument("--note", default="", help="printed in the report")
    run.add_argument("--out", type=Path, help="folder for the results and the report")


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _overrides(rest: Sequence[str]) -> dict[str, float]:
    """Read `--connections 50` and `--connections=50`: a scenario's parameters are flags."""
    words = [part for word in rest for part in word.split("=", 1)]
    if len(words) % 2 or not all(word.startswith("--") for word in words[::2]):
        raise ScenarioError(f"can't read {' '.join(rest)!r}: parameters are `--name number`")
    names = [word[2:].replace("-", "_") for word in words[::2]]
    return dict(zip(names, map(_number, words[1::2]), strict=True))


def _number(text: str) -> float:
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        raise ScenarioError(f"{text!r} is not a number") from None


def _load(options: argparse.Namespace, overrides: dict[str, float]) -> list[Scenario]:
    """Load the scenarios, each with those overrides that it knows; one must know each."""
    stems = Counter(Path(name).stem for name in options.scenarios)
    if twice := [stem for stem, count in stems.items() if count > 1]:  # one's files, the other's
        raise ScenarioError(f"{', '.join(twice)}: more than one scenario of that name")
    known = [scenario.parameters_of(name) for name in options.scenarios]
    if stray := set(overrides) - {name for parameters in known for name in parameters}:
        raise ScenarioError(f"no scenario here has a parameter {', '.join(sorted(stray))}")
    return [
        scenario.load(
            name,
            quick=options.quick,
            overrides={key: value for key, value in overrides.items() if key in parameters},
        )
        for name, parameters in zip(options.scenarios, known, strict=True)
    ]


def _planned(options: argparse.Namespace, overrides: dict[str, float]) -> suite.Planned:
    scenarios = _load(options, overrides)
    wanted = [name for name in options.strategies.split(",") if name]
    wishes = Wishes(
        strategies=available(wanted),
        repeats=options.repeats,
        seed=options.seed,
        generators=options.generators,
        quick=options.quick,
        note=options.note,
        workers=options.workers,
    )
    return suite.Planned("", scenarios, wishes)


def _bench_all(parts: Sequence[suite.Planned], out: Path | None) -> int:
    """Run the parts into one report; an interrupt leaves out what has not begun."""
    if not any(jobs(part.scenarios, part.wishes) for part in parts):  # else all would be measured
        raise ScenarioError("nothing to run: no repeat, or no variant for these strategies")
    folder = out or RESULTS / time.strftime("%Y-%m-%d-%H%M%S", time.gmtime())
    print(suite.announcement(parts), file=sys.stderr)
    done, code = [], 0
    for part in parts:
        results, outcome = _bench(folder / part.name, part.wishes, part.scenarios)
        done.append(results)
        code = max(code, outcome)
        if outcome == INTERRUPTED:
            break
    print(write_report(done, folder))
    return code


def _bench(
    folder: Path, wishes: Wishes, scenarios: Sequence[Scenario]
) -> tuple[dict[str, Any], int]:
    bench = Bench(folder, wishes)
    screen = Screen()
    results = bench.run(scenarios, screen.announce, screen.ended)
    if bench.interrupted or not results["complete"]:
        return results, INTERRUPTED
    bad = [run for run in results["runs"] if run["status"] != "measured"]
    if bad:
        print(f"{len(bad)} of {len(results['runs'])} runs are missing or invalid:", file=sys.stderr)
    for run in bad:
        print(f"  {run['scenario']} {run['strategy']}: {run['reason']}", file=sys.stderr)
    wrong = [run for run in results["runs"] if run.get("books", {}).get("doubled")]
    for run in wrong:
        print(f"{run['scenario']} {run['strategy']}: labels were bought twice", file=sys.stderr)
    return results, int(bool(bad or wrong))


def _report(options: argparse.Namespace) -> int:
    results = [raw.read(path) for path in options.results]
    print(write_report(results, options.out or options.results[0].parent))
    return 0


def _pages(options: argparse.Namespace) -> int:
    print(f"wrote {PAGE}" if write_page() else f"{PAGE} is up to date")
    return 0


def _list(options: argparse.Namespace) -> int:
    for name in scenario.names():
        flags = " ".join(f"--{key} {value}" for key, value in scenario.parameters_of(name).items())
        print(f"{name:<10} {scenario.load(name).title}\n           {flags}")
    return 0


if __name__ == "__main__":
    # Ended like Ctrl-C: the deployment is stopped in order, and what was measured is kept.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
