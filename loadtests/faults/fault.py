"""What a fault is, and one run of it. A kind is a file in `kinds` that registers its class."""

import importlib
import pkgutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, NamedTuple

from loadtests.faults import kinds
from loadtests.faults.invariants import ASKABLE, Finding, check, sold_twice
from loadtests.faults.journals import Journals
from loadtests.faults.rig import DEADLINE, FULL, LEASE, SETTLING, SHORT, WAIT, Rig

# References that were ever sold more than once, voided or not. A label that was bought too often
# may be voided by the time the journals are read, and then I2 holds although a guard was missing.
SOLD_TWICE = "references sold twice"
# Seconds beyond the longest wait; a later answer is late.
GRACE = 1.0
# Seconds, by the run's scale: what everything may take to end after the last strike. A lease runs
# out, the carrier's records settle, two lookups find nothing, and the purchase is made again.
REST = LEASE + SETTLING + DEADLINE + 60.0
# Seconds, whatever the scale: processes that start, the sweeper's rounds, and the minute until it
# wakes a row again whose last message went with the broker (parcels.services.sweep).
STARTING = 90.0
# Seconds for each request of the dose: a queue is drained at ten a second at least, on two cores
# that carry everything.
EACH_REST = 0.1


@dataclass(frozen=True, slots=True)
class Dose:
    """How much: `requests` in all, `strikes` of the fault, `seconds` that it lasts."""

    requests: int
    strikes: int = 1
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Measure:
    """A fault's own target: what was measured, what was wanted, and whether it was met."""

    name: str
    value: float | str
    wanted: str
    met: bool


@dataclass(frozen=True, slots=True)
class Control:
    """The fault without one of its guards.

    `reddens`: what must turn red then, an invariant ("I2"), the name of a measure, or SOLD_TWICE;
    any red would prove less. `environment` takes the guard away; by default `FAULT_GUARDS_OFF` with
    the control's name. Where the guard is the strategy itself, `strategy` names another. A control
    may also differ in what `strike` does, by `Fault.control`.
    """

    reddens: str = "I2"
    environment: Mapping[str, str] | None = None
    strategy: str = ""


@dataclass(slots=True)
class Result:
    """One run: red if an invariant broke or a target was missed."""

    fault: str
    title: str
    dose: str
    database: str
    control: str  # the guard that was taken away; empty: the guarded run
    seed: int
    requests: int
    tried: int = 0
    lost: int = 0
    # Intents with more than one live purchase, and references that were ever sold more than once.
    doubled: int = 0
    sold_twice: int = 0
    late: int = 0
    review: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    measures: list[Measure] = field(default_factory=list)
    schedule: list[tuple[float, str]] = field(default_factory=list)
    reddens: str = ""
    scale: float = SHORT
    broker: str = ""

    @property
    def green(self) -> bool:
        """Tell whether all held."""
        return all(finding.holds for finding in self.findings) and all(
            measure.met for measure in self.measures
        )

    @property
    def caught(self) -> bool:
        """Tell whether a control broke what it must break: that invariant or that measure."""
        broken = {finding.invariant for finding in self.findings if not finding.holds}
        broken |= {measure.name for measure in self.measures if not measure.met}
        return self.reddens in broken

    @property
    def as_it_must_be(self) -> bool:
        """Tell whether a guarded run is green, a control red for its own reason."""
        return self.caught if self.control else self.green

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"green": self.green, "caught": self.caught}


class Fault:
    """One kind of fault: how it strikes, and what is wanted beside the invariants.

    `rig` is what it strikes at: all on one loopback, or on several machines.
    `environment` changes the deployment's, `short_environment` that of the short dose and the
    controls only; `times`, too: variables in seconds at full scale, multiplied by the run's. A full
    dose keeps the shipped deadlines, settling windows and bulkheads. `rest` is the seconds at full
    scale that everything may take to end after the last strike. `controls` are runs of the short
    dose, each without one guard; `uncontrolled` says why there is none. `short_scale` is what the
    short dose and the controls shrink all times by.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    doses: ClassVar[Mapping[str, Dose]]
    databases: ClassVar[tuple[str, ...]] = ("postgresql",)
    strategy: ClassVar[str] = "asgi-hold"
    rig: ClassVar[type[Rig]] = Rig
    environment: ClassVar[Mapping[str, str]] = {}
    short_environment: ClassVar[Mapping[str, str]] = {}
    times: ClassVar[Mapping[str, float]] = {}
    controls: ClassVar[Mapping[str, Control]] = {}
    rest: ClassVar[float] = REST
    short_scale: ClassVar[float] = SHORT
    # The largest share of the clients that may be told that nothing is stored.
    may_refuse: ClassVar[float] = 0.0
    # The largest share of the orders that may be left to a person, of carriers that can be asked
    # what they hold: at others it is the only end of a lost answer.
    may_review: ClassVar[float] = 0.0
    # It has a measure of its own for what is sold twice, as that can't be helped.
    sells_twice: ClassVar[bool] = False
    # It takes the place of an engine, or brings them: others can't be asked for.
    own_engines: ClassVar[bool] = False
    # Its targets are times: it must not share the machine with another run.
    alone: ClassVar[bool] = False
    uncontrolled: ClassVar[str] = ""

    def __init__(self, dose: Dose, *, control: str = "") -> None:
        self.dose = dose
        self.control = control  # the guard that is taken away; empty: none

    def strike(self, rig: Rig) -> None:
        """Send the load and break things."""
        raise NotImplementedError

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        """Return how the fault's own targets were met."""
        return []


REGISTERED: dict[str, type[Fault]] = {}


def register(kind: type[Fault]) -> type[Fault]:
    """Add a kind of fault; two of one id are a mistake."""
    if kind.id in REGISTERED:
        raise ValueError(f"two faults call themselves {kind.id}")
    REGISTERED[kind.id] = kind
    return kind


def all_faults() -> dict[str, type[Fault]]:
    """Return every kind by id, in their order."""
    for info in pkgutil.iter_modules(kinds.__path__):
        importlib.import_module(f"{kinds.__name__}.{info.name}")
    return dict(sorted(REGISTERED.items(), key=lambda item: int(item[0][1:])))


class Run(NamedTuple):
    """What a result is of. `control` is the guard that was taken away; empty: none."""

    fault: str
    dose: str
    database: str
    control: str = ""
    broker: str = ""

    def __str__(self) -> str:
        kind = f"without {self.control}" if self.control else "guarded"
        return f"{self.fault} {kind} on {engines(self.database, self.broker)}, {self.dose} dose"


def engines(database: str, broker: str) -> str:
    """Return what a run stood on; Redis goes without saying."""
    return f"{database}, {broker}" if broker else database


def planned(
    kind: type[Fault], dose: str, *, only: str = "", controls: bool = True, broker: str = ""
) -> list[Run]:
    """Return a fault's runs, on its databases or on one only; none where it can't have that.

    The second database shows that nothing depends on the first one's locks, and red needs one
    violation: for both the short dose is enough.
    """
    databases = [database for database in kind.databases if only in ("", database)]
    if only == "pgbouncer" and "postgresql" in kind.databases:
        databases = [only]
    if not databases or (kind.own_engines and (broker or only == "pgbouncer")):
        return []
    doses = [dose if database in (only, kind.databases[0]) else "short" for database in databases]
    guarded = [Run(kind.id, *run, "", broker) for run in zip(doses, databases, strict=True)]
    first = only or kind.databases[0]
    return guarded + [
        Run(kind.id, "short", first, name, broker) for name in kind.controls if controls
    ]


def execute(kind: type[Fault], run: Run, *, seed: int) -> Result:
    """Make a run on a deployment of its own, and read the journals."""
    scale = FULL if run.dose == "full" else kind.short_scale
    rig = kind.rig(
        database=run.database,
        broker=run.broker,
        seed=seed,
        strategy=(run.control and kind.controls[run.control].strategy) or kind.strategy,
        env=environment_of(kind, run.dose, scale=scale, control=run.control),
        scale=scale,
    )
    with rig:
        return execute_on(rig, kind, run.dose, seed=seed, control=run.control)


def environment_of(kind: type[Fault], dose: str, *, scale: float, control: str) -> dict[str, str]:
    """Return what a run adds to the deployment's environment."""
    times = {name: f"{seconds * scale:g}" for name, seconds in kind.times.items()}
    short = kind.short_environment if dose == "short" else {}
    off: Mapping[str, str] = {}
    if control:
        given = kind.controls[control].environment
        off = {"FAULT_GUARDS_OFF": control} if given is None else given
    return {**kind.environment, **times, **short, **off}


def execute_on(rig: Rig, kind: type[Fault], dose: str, *, seed: int, control: str = "") -> Result:
    """Run a fault once on a deployment that others are run on, too."""
    begun = time.monotonic()
    fault = kind(kind.doses[dose], control=control)
    result = Result(
        kind.id, kind.title, dose, rig.database_kind, control, seed, fault.dose.requests,
        reddens=kind.controls[control].reddens if control else "", scale=rig.scale,
        broker=rig.broker_kind,
    )  # fmt: skip
    changes = environment_of(kind, dose, scale=rig.scale, control=control)
    rig.begin(f"{kind.id}{control}.", changes, seed)
    fault.strike(rig)
    for load in rig.loads:
        load.join(timeout=600)
        if len(load.told) < len(load.wishes):  # its thread has died: nothing was lost, as none came
            raise RuntimeError(f"{len(load.told)} of {len(load.wishes)} requests were sent")
    rig.note("all clients answered")
    # What a control has broken need not come to rest: a sale too many is seen at once. But for what
    # never ends, which must not be taken for what has not ended yet.
    own = rig.scale * fault.rest
    if not control or kind.controls[control].reddens == "I3":
        own += STARTING + EACH_REST * fault.dose.requests
    rested = rig.rest(own)
    rig.note("at rest" if rested else "not at rest")
    journals = rig.journals()
    result.findings = check(journals)
    result.measures = [
        *fault.measure(rig, journals),
        *_sold_twice(kind, journals),
        refused(kind, journals),
        reviewed(kind, journals),
    ]
    _count(result, journals)
    if kind.alone and dose == "full":  # beside others an answer may be late for their sake
        result.measures.append(Measure("late answers", result.late, "0", not result.late))
    if not (rested or control):
        left = rig.database.outstanding()
        result.measures.append(Measure("still to be done at the end", left, "0", met=False))
    result.schedule = rig.schedule
    if not (control or result.green):
        rig.keep_logs(kind.id)
    result.seconds = round(time.monotonic() - begun, 1)
    return result


def _sold_twice(kind: type[Fault], journals: Journals) -> list[Measure]:
    count = len(sold_twice(journals))
    return [] if kind.sells_twice else [Measure(SOLD_TWICE, count, "0", not count)]


def refused(kind: type[Fault], journals: Journals) -> Measure:
    """Count the clients that were told that nothing is stored: who takes nothing loses nothing."""
    stayed = [told for told in journals.told if not told.hung_up]
    count = sum(not told.acknowledged for told in stayed)
    most = int(kind.may_refuse * len(stayed))
    return Measure("clients refused", count, f"{most} at most", count <= most)


def reviewed(kind: type[Fault], journals: Journals) -> Measure:
    """Count what was left to a person although the carrier could have been asked."""
    rows = [row for row in journals.announcements if row.carrier in ASKABLE]
    count = sum(row.state == "needs_review" for row in rows)
    most = int(kind.may_review * len(rows))
    return Measure("left to a person", count, f"{most} at most", count <= most)


def _count(result: Result, journals: Journals) -> None:
    by_name = {finding.invariant: finding for finding in result.findings}
    result.tried = len(journals.told)
    result.lost = sum(by_name[name].violations for name in ("I1", "I3", "I12"))
    result.doubled = by_name["I2"].violations
    result.sold_twice = len(sold_twice(journals))
    longest = WAIT * result.scale + GRACE
    result.late = sum(
        told.answered_at is None and not told.hung_up for told in journals.told
    ) + sum((told.seconds or 0) > longest for told in journals.told)
    result.review = sum(row.state == "needs_review" for row in journals.announcements)
