"""`make run`: everything with one command.

    python -m deploy.run [--strategy NAME] [--port N] [--run-dir DIR] [--list]

Exit codes: 0 after Ctrl-C, which is how a run ends (make would report anything else as an error);
143, 129 after SIGTERM, SIGHUP; 1 when a process kept dying or never got ready; 2 when it refused to
start (the message says what to do next).
"""

import argparse
import errno
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from deploy import strategy as strategies
from deploy.env_file import write_env_file
from deploy.follow import Follower
from deploy.keep import GaveUpError, Keeper
from deploy.plan import ROOT
from deploy.ports import NoFreePortError, free_port, is_free, take
from deploy.prepare import PrepareError
from deploy.readiness import NotReadyError
from deploy.run_dir import RunDirInUseError, claimed
from deploy.stack import Stack
from deploy.stores import StoreMissingError
from deploy.strategy import StrategyError
from deploy.welcome import welcome

PREFERRED_PORT = 8000
# Below it a plain user can't bind, which looks the same.
ROOTS_PORTS = 1024
# Seconds between two looks: how late a restart may come.
TICK_SECONDS = 0.1
GAVE_UP, REFUSED = 1, 2
# A full disk, a run directory of another user's.
UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS}
MANAGE_FILE = "manage.env"
# Each may be named by a file, as the app has it.
STORES = ("DATABASE_URL", "REDIS_URL", "GUARDS_URL", "BROKER_URL", "OFFLOAD_STORE")
# Of the demo's accounts.
KEYS = ("PUBLIC_KEY", "SECRET_KEY", "PUBLIC_KEY_2", "SECRET_KEY_2")


class PortTakenError(RuntimeError):
    """The wanted port is somebody else's."""


REFUSALS = (
    NoFreePortError,
    PortTakenError,
    PrepareError,
    RunDirInUseError,
    StoreMissingError,
    StrategyError,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal comes; return the exit code."""
    options = _parse(arguments)
    try:
        return _list() if options.list else _run(options)
    except REFUSALS as refusal:
        print(refusal, file=sys.stderr)
        return REFUSED
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        print(f"{options.run_dir} can't be written to: {error.strerror}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        print("Stopped.")
        return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deploy.run", description="Start everything.")
    parser.add_argument("--strategy", default="asgi-hold", help="a folder of deploy/strategies")
    parser.add_argument("--port", type=_port, help=f"default {PREFERRED_PORT}, or a free one")
    parser.add_argument("--run-dir", type=Path, default=ROOT / ".run", help="all files go here")
    parser.add_argument("--list", action="store_true", help="list the strategies and end")
    return parser.parse_args(arguments)


def _port(word: str) -> int:
    if word.isdecimal() and 0 < int(word) < 65_536:
        return int(word)
    raise argparse.ArgumentTypeError(f"{word!r} is not a port: 1 to 65535")


def _list() -> int:
    for each in map(strategies.load, strategies.names()):
        lacking = strategies.why_unavailable(each)
        print(f"{each.name:20} {each.family:20} {each.title}{lacking and f' [{lacking}]'}")
    return 0


def _run(options: argparse.Namespace) -> int:
    strategy = strategies.load_available(options.strategy)
    end_by_signals()
    run_dir = options.run_dir.resolve()
    with claimed(run_dir):
        # What others read to find this run: people and tests the one, manage.py the other.
        files = run_dir / "demo.env", run_dir / MANAGE_FILE
        # Nothing of an earlier run is shown as this one's.
        for file in (*files, *run_dir.glob("*.log")):
            file.unlink(missing_ok=True)
        try:
            inherited = _environment()
            stack = Stack(
                strategy,
                database=inherited.get("DATABASE_URL") or "sqlite",
                redis_url=inherited.get("REDIS_URL", ""),
                inherited=inherited,
                run_dir=run_dir,
                port=choose_port(options.port),
                live=True,
            )
            _serve(stack, *files)
        finally:
            for file in files:
                file.unlink(missing_ok=True)
    return GAVE_UP


def _environment() -> dict[str, str]:
    """Return the shell's, with a store's address for the file that names it; StoreMissingError."""
    given = dict(os.environ)
    for name in STORES:
        if path := given.pop(f"{name}_FILE", ""):
            try:
                given[name] = Path(path).read_text().strip()
            except (OSError, UnicodeDecodeError):
                raise StoreMissingError(f"{name}_FILE={path!r} can't be read") from None
    return given


def end_by_signals() -> None:
    """Have SIGTERM, and SIGHUP of a closed terminal, end this process in order."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it
            signal.signal(number, lambda number, frame: sys.exit(128 + number))


def choose_port(wanted: int | None) -> int:
    """Return the wanted port, else the preferred, else a free one; say so in the last case."""
    if wanted is not None:
        if not is_free(wanted):
            closed = ", or open to root only" if wanted < ROOTS_PORTS else ""
            raise PortTakenError(
                f"port {wanted} is taken{closed}. Leave the choice to us:  make run\n"
                f"or name another:  make run PORT={free_port()}"
            )
        return wanted
    if take(PREFERRED_PORT):
        return PREFERRED_PORT
    chosen = free_port()
    print(f"Port {PREFERRED_PORT} is taken: using {chosen}.")
    return chosen


def _serve(stack: Stack, demo_file: Path, manage_file: Path) -> None:
    """Start all and keep it running until a signal comes or one keeps dying."""
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    folder = demo_file.parent
    with Follower(folder, lambda: stack.names, sys.stdout, colour=colour) as follower:
        follower.show(f"Preparing {stack.strategy.name} in {folder} …")
        try:
            stack.open()
            write_env_file(manage_file, stack.plan.own)
            # Last the accounts: their SECRET_KEY is the shop's, the environment's is Django's.
            known = {"BASE_URL": stack.base_url, **stack.env, **stack.accounts}
            names = ("BASE_URL", *KEYS, "SIMULATOR_URL", "LIVE_URL")
            write_env_file(demo_file, {name: known[name] for name in names})
            proxied = "http" in urllib.request.getproxies_environment()
            follower.show(welcome(stack.plan, stack.accounts, bold=colour, proxied=proxied))
            keeper = Keeper(stack, follower.say)
            while True:
                keeper.look(time.monotonic())
                time.sleep(TICK_SECONDS)
        except (GaveUpError, NotReadyError) as error:
            follower.say(str(error))
        finally:
            # Within deploy.child.STOP_SECONDS; at a carrier that hangs it takes most of them.
            follower.say("stopping: calls at carriers end first. Ctrl-C again ends all at once")
            stack.close()


if __name__ == "__main__":
    sys.exit(main())
