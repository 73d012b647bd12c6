"""One run: one strategy under one scenario, from an empty database to figures."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from deploy.loopback import ask_json
from deploy.rows import OPEN, PostgreSQL
from deploy.simulator import Simulator
from deploy.stack import Stack
from deploy.stores import PostgresServer
from loadtests import fleet
from loadtests.aggregate import SERVING, used
from loadtests.calls import BATCH, RECEIVER, make
from loadtests.collector import Collector, Row
from loadtests.deployment import deployed, hanging, login
from loadtests.figures import phase_figures
from loadtests.generator import Plan, Progress, Stream
from loadtests.happenings import FAILED, Happenings
from loadtests.metrics import Sample, why_invalid
from loadtests.scenario import Phase, Scenario, StreamSpec

# Seconds of rest before the first phase: imports and first connections are no steady state.
REST_SECONDS = 1.0
# How many labels one request asks for.
LABELS = {"label": 1, "async": 1, "batch": BATCH}

Tell = Callable[[str, Progress], None]


@dataclass(slots=True)
class Run:
    """What a run left: `figures` goes into the raw data, `samples` beside it.

    `reasons` say why it is invalid; there are none where it is valid.
    """

    figures: dict[str, Any]
    samples: list[tuple[str, float, list[Sample]]] = field(default_factory=list)
    interrupted: bool = False
    reasons: list[str] = field(default_factory=list)


def measure(
    strategy: str,
    scenario: Scenario,
    postgresql: PostgresServer,
    sizes: Mapping[str, str],
    *,
    generators: int = 1,
    tell: Tell = lambda phase, progress: None,
) -> Run:
    """Start the strategy, run all phases, compare the books, stop it.

    Raises what starting or the contract check raises: such a run is missing, not bad.
    """
    tell("starts", Progress())
    with deployed(strategy, scenario, postgresql, sizes) as (stack, url):
        bench = _Bench(stack, url, scenario, generators, tell)
        with hanging(stack.base_url, login(stack, 2), scenario.receivers):
            return bench.run(Collector(stack, url, {"postgresql": postgresql.child.pid}))


class _Bench:
    def __init__(
        self, stack: Stack, url: str, scenario: Scenario, generators: int, tell: Tell
    ) -> None:
        self._stack = stack
        self._url = url
        self._scenario = scenario
        self._generators = generators
        self._tell = tell
        self._simulator = Simulator(stack.env)
        self._waited_for = 0  # labels of parcels that were created for a stream to wait for

    def run(self, collector: Collector) -> Run:
        books = self._simulator.books()
        web = ("WEB_WORKERS", "WEB_THREADS", "WEB_GREENLETS", "OFFLOAD_MAX_CONCURRENCY")
        sized = (*web, "HUB_WORKERS")
        sizes = {name: self._stack.env[name] for name in sized if name in self._stack.env}
        run = Run({"sizes": sizes})
        began = time.monotonic()
        collector.start()
        try:
            time.sleep(REST_SECONDS)
            phases = [self._phase(phase, run) for phase in self._scenario.phases]
            run.figures["books"] = self._settle(books, run)
            run.figures["settled"] = round(time.monotonic() - began, 2)
        finally:
            rows = collector.stop()
        run.figures["phases"] = [phase for phase in phases if phase]
        run.figures["timeline"] = [_relative(row, began) for row in rows]
        for phase in run.figures["phases"]:
            phase["start"] = round(phase["start"] - began, 3)
        # An outage that could not be begun leaves figures of a day without one.
        run.reasons += _failed_events(run.figures["phases"])
        lookups = [row["lookup"] for row in rows if "lookup" in row]
        busy = max((phase["generator_busy"] for phase in run.figures["phases"]), default=0.0)
        run.reasons += why_invalid(run.samples, lookups, busy)
        return run

    def _phase(self, phase: Phase, run: Run) -> dict[str, Any] | None:
        # A strategy may have no hub.
        specs = [each for each in phase.streams if each.target in ("app", *self._stack.names)]
        if not specs or run.interrupted:
            return None
        happenings = Happenings(self._stack, phase.events)
        streams = tuple(self._stream(spec) for spec in specs)

        def plan(start: float) -> Plan:
            happenings.begin(start)
            return Plan(streams, start, phase.cap)

        try:
            planned, report, run.interrupted = fleet.send(
                plan,
                generators=self._generators,
                tell=lambda progress: self._tell(phase.name, progress),
            )
        finally:
            events = happenings.end()
        if not run.interrupted:
            run.reasons += [
                f"{event.kind} {event.what} never came: the phase was over"
                for event in phase.events[len(events) :]
            ]
        run.samples.append((phase.name, planned.start, report.samples))
        return {
            "name": phase.name,
            "start": planned.start,
            "events": events,
            "generator_busy": round(report.busy, 3),
            "streams": phase_figures(self._scenario, specs, report.samples, planned.start, events),
        }

    def _stream(self, spec: StreamSpec) -> Stream:
        app = urlsplit(self._stack.base_url).netloc
        address = app if spec.target == "app" else self._stack.env["HUB_BIND"]
        login_ = login(self._stack, spec.account)
        parcel = 0
        if spec.call == "wait":  # for a label that was asked for just now
            asked = {"shipment": {"id": spec.method}, "request_label_async": True}
            url = f"{self._stack.base_url}/api/v2/parcels"
            parcel = ask_json(url, {"parcel": RECEIVER | asked}, login=login_)["parcel"]["id"]
            self._waited_for += 1
        call = make(spec.call, host=address, login=login_, method=spec.method, parcel=parcel)
        host, _, port = address.partition(":")
        return Stream(spec.name, host, int(port), call, spec.arrivals, spec.begin, spec.time_out)

    def _settle(self, before: Any, run: Run) -> dict[str, Any]:
        """Wait until nothing is under way, then compare what was asked with what was booked."""
        self._tell("settles", Progress())
        database = PostgreSQL(self._url)
        end = time.monotonic() + (0 if run.interrupted else self._scenario.settle)
        while states := database.states():
            open_ = any(states.get(state, 0) for state in OPEN)
            try:
                if not (open_ or self._simulator.in_flight()) or time.monotonic() > end:
                    break
                time.sleep(0.2)
            except KeyboardInterrupt:  # the phases have been measured
                run.interrupted, end = True, 0.0
        database.close()
        books = self._simulator.books() - before
        labels = {
            (phase.name, spec.name): LABELS.get(spec.call, 0)
            for phase in self._scenario.phases
            for spec in phase.streams
        }
        every = [
            (labels[phase, sample.stream], sample.ok)
            for phase, _, samples in run.samples
            for sample in samples
        ]
        return {
            "asked": self._waited_for + sum(count for count, _ in every),
            "answered_well": self._waited_for + sum(count for count, ok in every if ok),
            "booked": books.booked,
            "doubled": books.doubled,
            "announced": states.get("announced", 0) - 1,  # less the contract check's
            "open": sum(states.get(state, 0) for state in OPEN),
            "failed": states.get("failed", 0),
        }


def _failed_events(phases: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"{event['kind']} {event['what']} {event['said']}"
        for phase in phases
        for event in phase["events"]
        if event["said"].startswith(FAILED)
    ]


def _relative(row: Row, began: float) -> Row:
    row["at"] = round(row["at"] - began, 2)
    row["load"] = round(row["load"], 2)
    if "lookup" in row:
        row["lookup"] = round(row["lookup"], 4)
    if (memory := used("memory", *SERVING)(row)) is not None:
        row["serving_memory"] = round(memory, 1)
    return row
