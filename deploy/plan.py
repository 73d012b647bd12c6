"""What to run: a strategy and an environment make a list of processes."""

import math
import os
import re
import secrets
import string
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import digits
from urllib.parse import quote

from deploy.env_file import read_env_file, write_env_file
from deploy.ports import LOWEST, free_ports, take
from deploy.readiness import is_question
from deploy.stores import redis_command
from deploy.strategy import Strategy, StrategyError, fill_in, search_path

ROOT = Path(__file__).resolve().parent.parent
# Not imported: what measures the app from outside imports this, and none of the app.
CARRIERS = tuple(
    sorted(file.stem.upper() for file in (ROOT / "carriers" / "adapters").glob("[a-z]*.py"))
)
# What the settings read, but for what has a carrier's name in it. As text, for the same reason.
SETTINGS = frozenset(
    re.findall(r'env\.\w+\((?: *#.*)?\s*"(\w+)"', (ROOT / "shipping" / "settings.py").read_text())
)

# What each process answers when it is ready; a strategy may say otherwise, by process.
READINESS = {
    "hub": "GET http://${HUB_BIND}/healthz",
    "live": "GET ${LIVE_URL}/healthz",
    "worker": "file ${RUN_DIR}/worker.ready",
    "sweeper": "file ${RUN_DIR}/sweeper.ready",
    "simulator": "GET ${SIMULATOR_URL}/healthz",
    "redis": "redis ${REDIS_URL}",
}
LIVE = "python -m deploy.live"
# Web, and whatever front stands before it.
ANY_OTHER = "GET http://127.0.0.1:${PORT}/readyz"

# Where neither the strategy nor the environment says otherwise, in a container, too. One process of
# the hub holds 10,000 connections.
SIZES = {"WEB_WORKERS": "2", "WORKER_CONCURRENCY": "2500", "HUB_WORKERS": "1"}
# As the settings have it: requests at once in each web process of asgi-hold.
MAX_CONCURRENCY = 8
# As the settings have it: seconds.
WAIT_MAXIMUM = 120
# Of one address: it takes forty of them to fill a hub (10,000 holds). 0 where all clients share an
# address, as the lab's do: no limit.
CONNECTIONS = "256"
# Of them with a large body, each a file of 2 MB at most: eight addresses fill the 256 MB that a
# container has for such files.
LARGE_BODIES = 16
# Of them that fetch documents (a hundred labels of 40 KB at most) or lists (a hundred parcels, 6 MB
# at most): three addresses fill it by them.
DOCUMENTS = 16

# What the caller's environment may say otherwise.
DEFAULTS = {
    "DEBUG": "0",
    "DEMO": "1",
    "ALLOWED_HOSTS": "localhost,127.0.0.1,[::1]",
    "BIND_HOST": "127.0.0.1",
    "FRONT_CONNECTIONS_PER_ADDRESS": "0",  # all clients are here
    "OFFLOAD_MAX_CONCURRENCY": str(MAX_CONCURRENCY),  # the live page draws a square for each
    "WORKERS": "1",  # processes; each has its own WORKER_CONCURRENCY
    **SIZES,
}

# The rest needs these to end its work in order, so they are stopped after it.
BACKING = ("redis", "simulator")


@dataclass(frozen=True)
class PlannedProcess:
    """One process to start: a shell command, the question whether it is ready, how it stops."""

    name: str
    command: str
    readiness: str
    stop_signal: int
    backing: bool


@dataclass(frozen=True)
class Plan:
    """All that is known before the first process starts."""

    strategy: Strategy
    run_dir: Path
    environment: Mapping[str, str]
    processes: tuple[PlannedProcess, ...]
    # Names in the caller's environment that mean nothing to us; they are in `environment`, too.
    foreign: frozenset[str]

    @property
    def own(self) -> dict[str, str]:
        """Return what tells this run from another; the rest is the caller's own shell."""
        return {name: value for name, value in self.environment.items() if name not in self.foreign}


def make_plan(
    strategy: Strategy,
    *,
    run_dir: Path,
    port: int | None = None,
    database_url: str = "",
    redis_url: str = "",
    overrides: Mapping[str, str] | None = None,
    inherited: Mapping[str, str] | None = None,
    live: bool = False,
) -> Plan:
    """Choose ports, complete the environment and list the processes.

    Without `redis_url` a Redis of our own is the first of them; without `database_url` the
    database is a SQLite file in `run_dir`. `overrides` wins over everything; then what stands in
    `inherited` (the caller's environment), except what has to differ from stack to stack; then
    the strategy's own environment. `live` adds the live page, which is no strategy's.
    """
    run_dir = run_dir.resolve()
    run_dir.mkdir(parents=True, exist_ok=True)
    outside = dict(os.environ if inherited is None else inherited)
    ports = _ports(strategy, port)
    # A value of ours that happens to be in the caller's shell must not leak in, nor its file.
    fixed = _fixed(strategy, run_dir, ports)
    ours = {*fixed, "DATABASE_URL", "REDIS_URL"}
    chosen = DEFAULTS | fixed
    known = {*chosen, *strategy.environment, *SETTINGS}
    foreign = frozenset(n for n in outside if not known & {n, n.removesuffix("_FILE")})
    chosen |= {
        name: value
        for name, value in outside.items()
        if not ours & {name, name.removesuffix("_FILE")}
    }
    chosen["DATABASE_URL"] = database_url or f"sqlite:///{quote(str(run_dir))}/db.sqlite3"
    password = secrets.token_urlsafe(24)
    chosen["REDIS_URL"] = redis_url or f"redis://:{password}@127.0.0.1:{ports['REDIS_PORT']}/0"
    # A PATH whose `python` is the one that runs this.
    here = str(Path(sys.executable).parent)
    chosen["PATH"] = os.pathsep.join([here, search_path(outside.get("PATH", ""))])
    chosen |= {
        name: fill_in(value, chosen, f"{strategy.name}: environment")
        for name, value in strategy.environment.items()
        if name not in outside or name in fixed
    }
    chosen |= overrides or {}
    check_sizes(strategy, chosen)
    chosen = front_values(chosen) | chosen
    lines = _with_more_workers(strategy.processes, chosen["WORKERS"])
    if not redis_url:
        log = run_dir / "redis.log"
        redis = redis_command(ports["REDIS_PORT"], run_dir / "redis", log, password)
        lines = {"redis": redis} | lines
    if live:
        lines |= {"live": LIVE}
    processes = tuple(_process(strategy, name, line, chosen) for name, line in lines.items())
    return Plan(strategy, run_dir, chosen, processes, foreign)


def check_sizes(strategy: Strategy, environment: Mapping[str, str]) -> None:
    """Raise StrategyError for one that is no number over 0: servers then wait without a word."""
    for name in ("WORKERS", *SIZES, *map(str, strategy.slots)):
        count = environment.get(name, "1")
        if not count.isdecimal() or int(count) < 1:
            raise StrategyError(f"{name} is a number, 1 or more, not {count!r}")


def _with_more_workers(lines: Mapping[str, str], count: str) -> dict[str, str]:
    more = [f"worker{number}" for number in range(2, int(count) + 1) if "worker" in lines]
    return {**lines, **{name: f"WORKER={name} {lines['worker']}" for name in more}}


def _ports(strategy: Strategy, port: int | None) -> dict[str, int]:
    names = ["PORT", "APP_PORT", "HUB_PORT", "LIVE_PORT", "REDIS_PORT", "SIMULATOR_PORT"]
    names += [*CARRIERS, *strategy.ports]
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    if port:
        ports["PORT"] = port
        # Addresses that people can keep in mind; among the free ports it may be another run's.
        if port < LOWEST and take(port + 1):
            ports["LIVE_PORT"] = port + 1
    return ports


def _kept_secrets(path: Path) -> dict[str, str]:
    """Return secrets of this run directory: what was encrypted yesterday must be readable today."""
    kept = read_env_file(path)
    names = ("SECRET_KEY", "OFFLOAD_SECRET", "LIVE_SECRET")
    if not all(kept.get(name) for name in names):
        alphabet = string.ascii_letters + string.digits
        kept = {name: "".join(secrets.choice(alphabet) for _ in range(64)) for name in names}
        write_env_file(path, kept)
    return kept


def _fixed(strategy: Strategy, run_dir: Path, ports: Mapping[str, int]) -> dict[str, str]:
    carriers = {f"CARRIER_URL_{code}": f"http://127.0.0.1:{ports[code]}" for code in CARRIERS}
    behind_front = any("APP_PORT" in line for line in strategy.processes.values())
    app = ports["APP_PORT" if behind_front else "PORT"]
    return {
        # A shell that has taken in `demo.env` has the shop's SECRET_KEY.
        **_kept_secrets(run_dir / "secrets.env"),
        **carriers,
        **{name: str(ports[name]) for name in ("PORT", "APP_PORT", *strategy.ports)},
        "APP_HOST": "127.0.0.1",
        "DJANGO_SETTINGS_MODULE": "shipping.settings",
        "STRATEGY": strategy.name,
        "PROJECT_DIR": str(ROOT),
        "RUN_DIR": str(run_dir),
        "PROMETHEUS_MULTIPROC_DIR": str(run_dir / "metrics"),
        "ACCOUNTS_FILE": str(run_dir / "accounts.env"),
        "HUB_BIND": f"127.0.0.1:{ports['HUB_PORT']}",
        "LIVE_PORT": str(ports["LIVE_PORT"]),
        "LIVE_URL": f"http://127.0.0.1:{ports['LIVE_PORT']}",
        "SIMULATOR_URL": f"http://127.0.0.1:{ports['SIMULATOR_PORT']}",
        "SIMULATOR_LEDGER": str(run_dir / "ledger.jsonl"),
        "OFFLOAD_BACKEND": strategy.backend,
        # Where the hub asks the app: not through the front, where there is one.
        "OFFLOAD_RESOLVE_URL": f"http://127.0.0.1:{app}/_offload/answers",
        "PYTHONUNBUFFERED": "1",
        # Celery's advice about root is repeated at each start, seven lines long; the README has it.
        "PYTHONWARNINGS": "ignore:::celery.platforms",
        "NO_PROXY": "127.0.0.1,localhost",  # the machine's proxy doesn't know our loopback
        "no_proxy": "127.0.0.1,localhost",
    }


def front_values(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the values for the templates; what the environment says itself wins over them."""
    try:
        longest = math.ceil(float(environment.get("WAIT_MAXIMUM", WAIT_MAXIMUM)))
    except (ValueError, OverflowError):  # the settings say what is wrong with it
        longest = WAIT_MAXIMUM
    live = environment.get("LIVE_URL", "")
    connections = environment.get("FRONT_CONNECTIONS_PER_ADDRESS", CONNECTIONS)
    numbers = {"clients": connections, "large_bodies": LARGE_BODIES, "documents": DOCUMENTS}
    limits = " ".join(f"limit_conn {zone} {most};" for zone, most in numbers.items())
    return {
        # Seconds that a front waits for app or hub: half a minute over the longest wait.
        "FRONT_TIMEOUT": str(30 + longest),
        "FRONT_LIMITS": "" if connections == "0" else limits,
        # Without a live page there is nothing to show; a redirect would lead back to itself.
        "FRONT_PAGE": f"302 {live}/" if live else "404",
    }


def _process(
    strategy: Strategy, name: str, command: str, environment: Mapping[str, str]
) -> PlannedProcess:
    kind = name.rstrip(digits)  # `worker2` is a worker
    known = READINESS.get(kind, ANY_OTHER).replace(f"{kind}.ready", f"{name}.ready")
    question = strategy.readiness.get(name) or known
    if not is_question(question):
        raise StrategyError(f"{strategy.name}: {name}: {question!r} asks nothing")
    return PlannedProcess(
        name=name,
        command=command,
        readiness=fill_in(question, environment, f"{strategy.name}: readiness of {name}"),
        stop_signal=strategy.stop_signal(name),
        backing=name in BACKING,
    )
