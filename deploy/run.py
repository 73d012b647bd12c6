"""`make run`: everything with one command.

    python -m deploy.run [--strategy NAME] [--port N] [--run-dir DIR] [--list]

Exit codes: 130, 143, 129 after Ctrl-C, SIGTERM, SIGHUP; 1 when a process kept dying or never got
ready; 2 when it refused to start (the message says what to do next).
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from deploy import strategy as strategies
from deploy.child import raise_descriptor_limit
from deploy.env_file import read_env_file, write_env_file
from deploy.plan import ROOT, Plan, live_process, make_plan
from deploy.ports import NoFreePortError, free_port, is_free
from deploy.prepare import PrepareError, prepare
from deploy.readiness import NotReadyError, wait_until_ready
from deploy.run_dir import RunDirInUseError, claimed
from deploy.stores import StoreMissingError
from deploy.strategy import StrategyError
from deploy.supervisor import Supervisor, Terminal
from deploy.welcome import welcome

PREFERRED_PORT = 8000
# A Python process uses one core. Two announce 500 at once each, which is more than a demo needs.
MOST_WORKERS = 2
# Two idle cores need 6 s; a machine that needs more than this has another problem.
READY_SECONDS = 120.0
REFUSED = 2
MANAGE_FILE = "manage.env"


class PortTakenError(RuntimeError):
    """The wanted port is somebody else's."""


class NotAvailableError(RuntimeError):
    """The strategy needs something that is not installed here."""


REFUSALS = (
    NoFreePortError,
    NotAvailableError,
    PortTakenError,
    PrepareError,
    RunDirInUseError,
    StoreMissingError,
    StrategyError,
    subprocess.TimeoutExpired,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal comes; return the exit code."""
    options = _parse(arguments)
    try:
        return _list() if options.list else _run(options)
    except REFUSALS as refusal:
        print(refusal, file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        return 130


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deploy.run", description="Start everything.")
    parser.add_argument("--strategy", default="asgi-hold", help="a folder of deploy/strategies")
    parser.add_argument("--port", type=int, help=f"default {PREFERRED_PORT}, or a free one")
    parser.add_argument("--run-dir", type=Path, default=ROOT / ".run", help="all files go here")
    parser.add_argument("--list", action="store_true", help="list the strategies and end")
    return parser.parse_args(arguments)


def _list() -> int:
    for name in strategies.names():
        strategy = strategies.load(name)
        lacking = strategies.why_unavailable(strategy)
        print(f"{name:20} {strategy.family:20} {strategy.title}{lacking and f' [{lacking}]'}")
    return 0


def _run(options: argparse.Namespace) -> int:
    strategy = strategies.load(options.strategy)
    if lacking := strategies.why_unavailable(strategy):
        raise NotAvailableError(f"{strategy.name}: {lacking}")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    run_dir = options.run_dir.resolve()
    with claimed(run_dir):
        # What others read to find this run: people and tests the one, manage.py the other.
        files = run_dir / "demo.env", run_dir / MANAGE_FILE
        _remove(*files)
        try:
            return _supervise(_prepared(strategy, run_dir, options.port), *files)
        finally:
            _remove(*files)


def _remove(*files: Path) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def _prepared(strategy: strategies.Strategy, run_dir: Path, port: int | None) -> Plan:
    raise_descriptor_limit()
    plan = make_plan(
        strategy,
        run_dir=run_dir,
        port=choose_port(port),
        database_url=os.environ.get("DATABASE_URL", ""),
        redis_url=os.environ.get("REDIS_URL", ""),
        inherited={"WORKERS": str(min(MOST_WORKERS, os.cpu_count() or 1)), **os.environ},
    )
    print(f"Preparing {strategy.name} in {run_dir} …", flush=True)
    prepare(plan)
    return replace(plan, processes=(*plan.processes, live_process(plan)))


def choose_port(wanted: int | None) -> int:
    """Return the wanted port, else the preferred, else a free one; say so in the last case."""
    if wanted is not None:
        if not is_free(wanted):
            raise PortTakenError(
                f"port {wanted} is taken. Leave the choice to us:  make run\n"
                f"or name another:  make run PORT={free_port()}"
            )
        return wanted
    if is_free(PREFERRED_PORT):
        return PREFERRED_PORT
    chosen = free_port()
    print(f"Port {PREFERRED_PORT} is taken: using {chosen}.")
    return chosen


def _supervise(plan: Plan, demo_file: Path, manage_file: Path) -> int:
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    terminal = Terminal(sys.stdout, colour=colour)
    supervisor = Supervisor(terminal)
    for planned in plan.processes:
        supervisor.add(planned, plan.environment, ROOT)

    def announce() -> None:
        write_env_file(manage_file, _own(plan))
        write_env_file(demo_file, _demo(plan))
        with terminal.unless_gone():
            print(_welcome(plan, bold=colour), flush=True)

    watcher = threading.Thread(
        target=_announce_when_ready, args=(plan, supervisor, announce), daemon=True
    )
    watcher.start()
    supervisor.loop()
    return supervisor.returncode or 0


def _announce_when_ready(plan: Plan, supervisor: Supervisor, announce: Callable[[], None]) -> None:
    for planned in plan.processes:
        try:
            wait_until_ready(
                planned.readiness, seconds=READY_SECONDS, given_up=supervisor.why_stopping
            )
        except NotReadyError as error:
            if not supervisor.why_stopping():
                supervisor.fail(f"{planned.name}: {error}\n")
            return
    supervisor.call(announce)


def _own(plan: Plan) -> dict[str, str]:
    """Return what manage.py needs to work on this run: all that we have set ourselves."""
    given = plan.environment.items()
    return {name: value for name, value in given if os.environ.get(name) != value}


def _demo(plan: Plan) -> dict[str, str]:
    keys = ("PUBLIC_KEY", "SECRET_KEY", "PUBLIC_KEY_2", "SECRET_KEY_2")
    accounts = read_env_file(plan.accounts_file)
    return {
        "BASE_URL": plan.base_url,
        **{key: accounts[key] for key in keys},
        "SIMULATOR_URL": plan.environment["SIMULATOR_URL"],
        "LIVE_URL": plan.environment["LIVE_URL"],
    }


def _welcome(plan: Plan, *, bold: bool) -> str:
    return welcome(
        base_url=plan.base_url,
        accounts=read_env_file(plan.accounts_file),
        environment=plan.environment,
        run_dir=plan.run_dir,
        bold=bold,
        proxied="http" in urllib.request.getproxies_environment(),
    )


if __name__ == "__main__":
    sys.exit(main())
