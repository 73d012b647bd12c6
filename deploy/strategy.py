"""Strategies: each folder below `deploy/strategies` is one deployment.

`Procfile` names its processes beside those that all have (`deploy/strategies/Procfile`),
`strategy.toml` describes it (its keys: `deploy/strategies/README.md`), every file `<name>.in` is a
configuration file to be filled in. Nothing else lists the strategies.
"""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from math import prod
from pathlib import Path
from string import digits
from typing import Any

STRATEGIES = Path(__file__).parent / "strategies"
FAMILIES = ("waits in the worker", "is held by a front")
BACKENDS = ("inline", "async", "asgi", "accel", "njs", "poll", "uwsgi")

# A plain user's PATH on Debian lacks sbin, where nginx is.
SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin"
# `nginx -V` and the like answer at once; a check that hangs is a check that fails.
CHECK_SECONDS = 10

LINE = re.compile(r"^([A-Za-z0-9_-]+):\s*(.+?)\s*$", re.MULTILINE)
VARIABLE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")


class StrategyError(RuntimeError):
    """A strategy's folder is missing or wrong."""


@dataclass(frozen=True)
class Needs:
    """What must be installed for a strategy: programs, Python modules, and a shell check."""

    binaries: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    check: str = ""
    install: str = ""


@dataclass(frozen=True)
class Strategy:
    """One way of serving the application, as its folder says it."""

    name: str
    folder: Path
    processes: Mapping[str, str]
    title: str = ""
    family: str = ""
    backend: str = ""
    slots: tuple[str | int, ...] = ()
    needs: Needs = field(default_factory=Needs)
    readiness: Mapping[str, str] = field(default_factory=dict)
    stop: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[str, ...] = ()
    reload: Mapping[str, str] = field(default_factory=dict)
    cannot: Mapping[str, str] = field(default_factory=dict)

    @property
    def templates(self) -> list[Path]:
        """Return the configuration files to be filled in before the start."""
        return sorted(self.folder.glob("*.in"))

    def stop_signal(self, process: str) -> int:
        """Return the signal that ends a process gracefully."""
        return signal.Signals[f"SIG{self.stop.get(process, 'TERM').removeprefix('SIG')}"]

    def slots_in(self, environment: Mapping[str, str]) -> int | None:
        """Return how many requests its workers serve at once; None where nothing bounds them."""
        if not self.slots:
            return None
        return prod(int(environment[one] if isinstance(one, str) else one) for one in self.slots)


# What `strategy.toml` may say.
KEYS = {each.name for each in fields(Strategy)} - {"name", "folder", "processes", "needs"}
NEEDS = {each.name for each in fields(Needs)}


def names(folder: Path = STRATEGIES) -> list[str]:
    """Return the names of all strategies, sorted."""
    return sorted(path.parent.name for path in folder.glob("*/strategy.toml"))


def load(name: str, folder: Path = STRATEGIES) -> Strategy:
    """Read one strategy; raise StrategyError where its folder doesn't make sense."""
    home = folder / name
    if not (home / "strategy.toml").is_file():
        known = ", ".join(names(folder)) or "none"
        raise StrategyError(f"there is no strategy {name!r}; there are: {known}")
    raw = tomllib.loads((home / "strategy.toml").read_text())
    needs = raw.pop("needs", {})
    if stray := sorted((raw.keys() - KEYS) | (needs.keys() - NEEDS)):
        raise StrategyError(f"{home}/strategy.toml: unknown keys {stray}")
    strategy = Strategy(name, home, _processes(home), needs=Needs(**_frozen(needs)), **_frozen(raw))
    _refuse_nonsense(strategy)
    return strategy


def _frozen(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table's values, its lists as tuples."""
    return {key: tuple(each) if isinstance(each, list) else each for key, each in raw.items()}


def _processes(home: Path) -> dict[str, str]:
    """Return a strategy's own processes, and the shared ones of each kind that it lacks."""
    own = dict(LINE.findall((home / "Procfile").read_text()))
    shared = home.parent / "Procfile"
    kinds = {name.rstrip(digits) for name in own}
    lines = LINE.findall(shared.read_text()) if shared.exists() else []
    return own | {name: line for name, line in lines if name not in kinds}


def _refuse_nonsense(strategy: Strategy) -> None:
    stray = sorted({*strategy.readiness, *strategy.stop} - set(strategy.processes))
    reloads = [how for how in strategy.reload.values() if not is_reload(how, strategy.processes)]
    complaints = [
        (not strategy.title, "title is missing"),
        (strategy.family not in FAMILIES, f"family must be one of {FAMILIES}"),
        (strategy.backend not in BACKENDS, f"backend must be one of {BACKENDS}"),
        (not strategy.processes, "the Procfile names no process"),
        (bool(stray), f"readiness or stop names what the Procfile doesn't: {stray}"),
        (bool(reloads), f"a reload is `signal <process> <name>` or `touch <file>`: {reloads}"),
    ]
    for wrong, complaint in complaints:
        if wrong:
            raise StrategyError(f"{strategy.folder}/strategy.toml: {complaint}")


def is_reload(how: str, processes: Collection[str]) -> bool:
    """Say whether a line of `[reload]` can be done: `signal <process> <name>`, `touch <file>`."""
    match how.split():
        case ["signal", process, name]:
            return process in processes and f"SIG{name}" in signal.Signals.__members__
        case ["touch", _]:
            return True
        case _:
            return False


def why_unavailable(strategy: Strategy) -> str:
    """Return what is missing on this machine for the strategy; empty when nothing is."""
    path = search_path(os.environ.get("PATH", ""))
    lacking = [name for name in strategy.needs.binaries if not shutil.which(name, path=path)]
    lacking += [name for name in strategy.needs.modules if not importlib.util.find_spec(name)]
    reason = f"{', '.join(lacking)} not found" if lacking else _failed_check(strategy, path)
    if reason and strategy.needs.install:
        return f"{reason}; install with: {strategy.needs.install}"
    return reason


def load_available(name: str) -> Strategy:
    """Read a strategy that this machine can run; StrategyError says what is missing."""
    strategy = load(name)
    if lacking := why_unavailable(strategy):
        raise StrategyError(f"{name}: {lacking}")
    return strategy


def _failed_check(strategy: Strategy, path: str) -> str:
    if not strategy.needs.check:
        return ""
    try:
        check = subprocess.run(
            ["/bin/sh", "-c", strategy.needs.check],
            env={**os.environ, "PATH": path},
            cwd=strategy.folder,
            capture_output=True,
            timeout=CHECK_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"`{strategy.needs.check}` did not end"
    return f"`{strategy.needs.check}` fails" if check.returncode else ""


def search_path(path: str) -> str:
    """Return a PATH with the folders added where systems keep their servers."""
    return os.pathsep.join(filter(None, [path, SYSTEM_PATH]))


def fill_in(text: str, environment: Mapping[str, str], where: str = "text") -> str:
    """Replace each `${UPPER_CASE}` by its value; raise StrategyError for one that has none.

    All else that has a dollar stays as it is: nginx, njs and uWSGI have `$variables` of their own.
    """

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in environment:
            raise StrategyError(f"{where}: ${{{name}}} has no value")
        return environment[name]

    return VARIABLE.sub(value, text)
