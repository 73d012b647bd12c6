"""Advice that is often given, and what it does: `python -m loadtests myths`.

Clients in a closed loop ask a tiny Django site for labels at a carrier that takes two seconds;
beside them somebody reads a page that needs no carrier. One run for each way to serve it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from deploy.child import Child
from deploy.plan import ROOT
from deploy.ports import free_port
from deploy.readiness import wait_until_ready
from deploy.stores import RedisServer
from loadtests import machine
from loadtests.arrivals import Closed, Constant
from loadtests.calls import Call
from loadtests.figures import rounded
from loadtests.fleet import send
from loadtests.generator import Plan, Stream
from loadtests.metrics import UNFINISHED, Sample, by_stream, summarize, validity
from loadtests.processes import Processes
from loadtests.samples import PhaseSamples, write_samples

FOLDER = ROOT / "docs" / "myths"
SITE = Path(__file__).parent / "slow_site"
CARRIER_SECONDS = 2.0
# Forty clients at two seconds are twenty labels a second, if nobody has to queue.
CLIENTS = 40
# Ten times as many: what is paid for each is to be seen.
MANY = 400
# Ten times the carrier's two seconds: who waits in a queue of five workers is seen to wait 16 s.
SECONDS = 20.0
CHEAP_RATE = 5.0
START_SECONDS = 30.0

_WSGI = "-m gunicorn slow_site:wsgi --bind 127.0.0.1:{port} --timeout 120 --workers 5"
_ASGI = "-m uvicorn slow_site:asgi --host 127.0.0.1 --port {port} --no-access-log"
_CARRIER = "-m uvicorn slow_carrier:app --host 127.0.0.1 --port {port} --no-access-log"
_CELERY = "-m celery -A slow_site:queue worker --pool threads --concurrency 100 --loglevel warning"


@dataclass(frozen=True, slots=True)
class Way:
    """One way to serve a view that waits. `server` is the line after `python`."""

    name: str
    server: str
    view: str
    clients: int = CLIENTS
    time_out: float = 60.0
    behind: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """Return the name of its samples' file."""
        return "-".join(re.findall("[a-z0-9]+", self.name.lower()))


WAYS = (
    Way("sync view, 5 workers", _WSGI, "sync"),
    Way("sync view, 5 workers, clients give up after 5 s", _WSGI, "sync", time_out=5),
    Way("async view, 5 WSGI workers", _WSGI, "async"),
    Way("async view, one ASGI process", _ASGI, "async"),
    Way("sync view, 5 workers of 8 threads", f"{_WSGI} --threads 8", "sync"),
    Way(
        "sync view, 5 workers of 8 threads, 80 clients", f"{_WSGI} --threads 8", "sync", clients=80
    ),
    Way("Celery and .get(), 5 workers", _WSGI, "celery", behind=_CELERY),
    Way("sync view, one ASGI process", _ASGI, "sync"),
    Way("sync view, one ASGI process, 400 clients", _ASGI, "sync", clients=MANY),
    Way("async view, one ASGI process, 400 clients", _ASGI, "async", clients=MANY),
    Way(
        "async view, one sync middleware, one ASGI process",
        _ASGI,
        "async",
        environment={"MYTHS_SYNC_MIDDLEWARE": "1"},
    ),
)


def run(folder: Path, seconds: float, tell: Callable[[str], None]) -> dict[str, Any]:
    """Make all runs; write and return the raw data. An interrupt keeps what was measured."""
    (folder / "samples").mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {
        "began": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "command": f"python -m loadtests myths --seconds {seconds:g}",
        "carrier_seconds": CARRIER_SECONDS,
        "seconds": seconds,
        "machine": machine.card(),
        "runs": [],
        "complete": False,
    }
    with suppress(KeyboardInterrupt):
        for number, way in enumerate(WAYS, 1):
            tell(f"{number} of {len(WAYS)}: {way.name}")
            figures, samples = measure(way, seconds)
            write_samples(folder / "samples" / f"{way.file}.csv.gz", [samples])
            results["runs"].append(figures)
            _write(folder, results)
        results["complete"] = True
    _write(folder, results)
    return results


def _write(folder: Path, results: Mapping[str, Any]) -> None:
    draft = folder / "results.new"
    draft.write_text(json.dumps(results, indent=1) + "\n")
    draft.replace(folder / "results.json")


def measure(way: Way, seconds: float) -> tuple[dict[str, Any], PhaseSamples]:
    """Serve the site that way for so long; return what clients and machine saw, and each sample."""
    with _site(way) as (port, leaders), _watched(leaders) as seen:
        plan, report, interrupted = send(lambda start: _plan(way, port, start, seconds))
    if interrupted:
        raise KeyboardInterrupt
    streams = by_stream(report.samples)
    figures = {
        "way": way.name,
        "server": way.server,
        "behind": way.behind,
        "view": way.view,
        "clients": way.clients,
        "time_out": way.time_out,
        "limit": way.clients / CARRIER_SECONDS,
        "streams": {name: _figures(samples) for name, samples in streams.items()},
        "threads": max(seen.threads, default=None),
        "memory": max(seen.memory, default=None),
        "validity": asdict(validity(report.samples, [])),
    }
    return figures, ("", plan.start, report.samples)


def _plan(way: Way, port: int, start: float, seconds: float) -> Plan:
    # More than anybody can send: the time ends it, not the count.
    ask = Closed(way.clients, int(way.clients * seconds / CARRIER_SECONDS) * 2)
    labels = Stream("labels", "127.0.0.1", port, _get(way.view), ask, time_out=way.time_out)
    read = Constant(CHEAP_RATE, seconds)
    cheap = Stream("cheap reads", "127.0.0.1", port, _get("cheap"), read, time_out=way.time_out)
    return Plan((labels, cheap), start, seconds)


def _get(view: str) -> Call:
    return Call(f"GET /{view} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode(), "success")


def _figures(samples: list[Sample]) -> dict[str, Any]:
    """Return a stream's figures; who was still waiting at the end has not failed."""
    summary = summarize(samples)
    if summary is None:
        return {}
    waiting = summary.errors.pop(UNFINISHED, 0)
    figures = asdict(summary) | {"still_waiting": waiting}
    ended = summary.asked - waiting
    figures["error_share"] = 1 - summary.good / ended if ended else None
    return dict(rounded(figures))


@contextmanager
def _site(way: Way) -> Iterator[tuple[int, dict[str, int]]]:
    """Start carrier, queue and server; yields the port and the leaders of what serves."""
    port, carrier = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="myths-") as place, ExitStack() as stack:
        environment = os.environ | {
            "MYTHS_CARRIER": f"http://127.0.0.1:{carrier}",
            "MYTHS_CARRIER_SECONDS": str(CARRIER_SECONDS),
            **way.environment,
        }
        if way.behind:
            environment["MYTHS_BROKER"] = stack.enter_context(RedisServer()).url

        def start(name: str, line: str, address: str = "") -> int:
            command = f"{shlex.quote(sys.executable)} {line}"
            log = Path(place) / f"{name}.log"
            child = Child(name, command, log=log, env=environment, cwd=SITE)
            stack.callback(child.kill)
            child.start()
            if address:
                question = f"GET http://127.0.0.1:{address}"
                wait_until_ready(question, seconds=START_SECONDS, given_up=child.cause_of_death)
            return child.pid

        leaders = {"behind": start("behind", way.behind)} if way.behind else {}
        start("carrier", _CARRIER.format(port=carrier), f"{carrier}/")
        leaders["web"] = start("web", way.server.format(port=port), f"{port}/cheap")
        yield port, leaders


@dataclass(slots=True)
class _Seen:
    threads: list[int] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)


@contextmanager
def _watched(leaders: Mapping[str, int]) -> Iterator[_Seen]:
    """Look once a second: threads of the web processes, memory of all that serves."""
    seen, end, processes = _Seen(), threading.Event(), Processes(leaders)

    def look() -> None:
        while not end.wait(1.0):
            with suppress(psutil.NoSuchProcess):
                seen.threads.append(sum(one.num_threads() for one in processes.tree("web")))
            seen.memory.append(round(sum(processes.memory().values()), 1))

    thread = threading.Thread(target=look, name="myths", daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        end.set()
        thread.join(timeout=10)
