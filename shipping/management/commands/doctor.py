"""Show what is installed, what is missing, and how to install it."""

import os
import platform
import resource
import subprocess
import sys
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connections
from django.db.migrations.executor import MigrationExecutor

from deploy import strategy as strategies
from deploy.plan import ROOT
from deploy.readiness import why_not_ready
from deploy.stores import StoreMissingError, find_redis_server
from parcels.services.wake import REDIS
from shipping.ping import why_no_answer
from shipping.terminal import TerminalCommand

SETUP = ROOT / "deploy" / "setup.sh"
# Ten thousand holds are two descriptors each behind nginx.
DESCRIPTORS = 20_000
# The script asks for a dozen programs.
SECONDS = 30
# What to do about a server that is no part of the run.
START = "start the server that {} names"

Row = dict[str, Any]


class Command(TerminalCommand):
    help = "Show what is installed, what is missing, the effect, and how to install it."

    def handle(self, *args: Any, json: bool, **options: Any) -> None:
        python = _row(f"python {platform.python_version()}", there=True)
        rows = [python, *_components(), _descriptors(), *_strategies(), *_run()]
        self.show(rows, as_json=json)
        if not json:
            self.stdout.write(f"\n{_verdict(rows)}")


def _verdict(rows: list[Row]) -> str:
    missing = sum(row["state"] == "missing" for row in rows)
    broken = [row["what"].removeprefix("run: ") for row in rows if row["state"] == "not ready"]
    words = [f"This run has problems: {', '.join(broken)}."] if broken else []
    if missing:
        words.append(
            f"{missing} missing, with how to get each above; `make run` needs {_needed()}."
        )
    return "\n".join(words) or "All is there."


def _needed() -> str:
    """Return the one of them without which `make run` ends, or "none"."""
    named = os.environ.get("REDIS_URL") or os.environ.get("REDIS_URL_FILE")
    try:
        return "none" if named or find_redis_server() else "redis"
    except StoreMissingError:
        return "redis"


def _row(what: str, there: bool, get: str = "", without: str = "") -> Row:
    return {
        "what": what,
        "state": "there" if there else "missing",
        "how to get it": "" if there else get,
        "without it": "" if there else without,
    }


def _components() -> list[Row]:
    """Ask the script that installs them: one list for both."""
    done = subprocess.run(  # noqa: S603 # our own script
        ["bash", str(SETUP), "--list"],  # noqa: S607 # wherever bash is
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        cwd=ROOT,
    )
    rows = [line.split("|") for line in done.stdout.splitlines()]
    brew = sys.platform == "darwin"
    return [
        _row(name, state == "there", _install(formula if brew else package, brew=brew),
             f"skipped: {skipped}")
        for name, state, package, formula, skipped in rows
    ]  # fmt: skip


def _install(package: str, *, brew: bool) -> str:
    tool = "brew" if brew else "apt-get"
    return f"{tool} install {package.replace('cask:', '--cask ')}" if package else ""


def _descriptors() -> Row:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = hard == resource.RLIM_INFINITY or hard >= DESCRIPTORS
    return _row(
        f"{DESCRIPTORS} open files", enough, f"ulimit -n {DESCRIPTORS}", f"holds end at {hard}"
    )


def _strategies() -> list[Row]:
    rows = []
    for name in strategies.names():
        lacking = strategies.why_unavailable(strategies.load(name))
        get = lacking.partition("install with: ")[2] or "see above"
        rows.append(_row(f"strategy {name}", not lacking, get, lacking.partition(";")[0]))
    return rows


def _run() -> list[Row]:
    """Check the run in this folder, if there is one."""
    # A shell may have the one of a run that has ended, by its demo.env.
    simulator, port = os.environ.get("SIMULATOR_URL"), os.environ.get("PORT")
    if not (simulator and port):
        return [{"what": "a run", "state": "none", "how to get it": "make run", "without it": ""}]
    # Those in use, by what names them: REDIS_URL itself where it is one.
    stores = {
        settings.GUARDS_URL: "GUARDS_URL",
        str(settings.OFFLOAD["REDIS_URL"]): "OFFLOAD_STORE",
        settings.BROKER_URL: "BROKER_URL",
    }
    stores |= {url: "redis" for url in stores if url == settings.REDIS_URL}
    why = {name: why_no_answer(url) for url, name in stores.items() if url.startswith(REDIS)} | {
        "simulator": why_not_ready(f"GET {simulator}/healthz"),
        "web": why_not_ready(f"GET http://127.0.0.1:{port}/readyz"),
    }
    log = f"its last lines: {os.environ.get('RUN_DIR', '.run')}/{{}}.log; then `make run` again"
    rows = [
        _part(name, reason, START.format(name) if name.isupper() else log.format(name))
        for name, reason in why.items()
    ]
    return [*rows, _part("database", *_database())]


def _part(name: str, why: str, next_step: str) -> Row:
    return {
        "what": f"run: {name}",
        "state": "not ready" if why else "ready",
        "how to get it": next_step if why else "",
        "without it": why,
    }


def _database() -> tuple[str, str]:
    """Return why it can't be used, and what to do."""
    server = connections["default"].settings_dict
    # The pool would try for a quarter of a minute, with a line for each attempt.
    host = f"[{server['HOST']}]" if ":" in server["HOST"] else server["HOST"]  # IPv6
    address = f"{host}:{server['PORT']}"
    on_tcp = server["PORT"].isdecimal() and not server["HOST"].startswith("/")
    if on_tcp and (why := why_not_ready(f"port {address}")):
        return why, START.format("DATABASE_URL")
    return _why_not_migrated(), "make run migrates it"


def _why_not_migrated() -> str:
    try:
        executor = MigrationExecutor(connections["default"])
        waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        return str(error).splitlines()[0]
    return f"{len(waiting)} migrations are not applied" if waiting else ""
