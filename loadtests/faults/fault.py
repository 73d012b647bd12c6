"""What a fault is, and one run of it. A kind is a file in `kinds` that registers its class."""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from loadtests.faults import kinds
from loadtests.faults.invariants import Finding, check, purchases_by_intent
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig

# Seconds: an answer later than the longest wait (rig.ENVIRONMENT: 30 s) and a second.
LATE = 31.0
# Seconds: a lease of 7.5 s, a settling window of 4 s, and some for the sweeper's rounds.
CONTROL_REST = 20.0
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


@dataclass(slots=True)
class Result:
    """One run: red if an invariant broke or a target was missed."""

    fault: str
    title: str
    dose: str
    database: str
    control: bool
    seed: int
    requests: int
    tried: int = 0
    lost: int = 0
    doubled: int = 0
    late: int = 0
    parked: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    measures: list[Measure] = field(default_factory=list)
    schedule: list[tuple[float, str]] = field(default_factory=list)
    guards_off: str = ""
    reddens: str = ""

    @property
    def green(self) -> bool:
        """Tell whether all held."""
        return all(finding.holds for finding in self.findings) and all(
            measure.met for measure in self.measures
        )

    @property
    def caught(self) -> bool:
        """Tell whether a control broke what it must break: that invariant, or a target."""
        broken = {finding.invariant for finding in self.findings if not finding.holds}
        broken |= {"targets" for measure in self.measures if not measure.met}
        return self.reddens in broken

    @property
    def as_it_must_be(self) -> bool:
        """Tell whether a guarded run is green, a control red for its own reason."""
        return self.caught if self.control else self.green

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self) | {"green": self.green}


class Fault:
    """One kind of fault: how it strikes, and what is wanted beside the seven invariants.

    `control` is the environment that takes its guard away; a control may also differ in what
    `strike` does, by `is_control`. `rest` is the seconds that everything may
    take to end after the last strike.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    doses: ClassVar[Mapping[str, Dose]]
    databases: ClassVar[tuple[str, ...]] = ("postgresql",)
    strategy: ClassVar[str] = "asgi-hold"
    # The strategy of the control, where the guard is the strategy itself; empty: the same.
    control_strategy: ClassVar[str] = ""
    environment: ClassVar[Mapping[str, str]] = {}
    control: ClassVar[Mapping[str, str]] = {}
    # What the control does without, for the table; empty: it has no control.
    without: ClassVar[str] = ""
    # What must turn red then: an invariant, or "targets". Any red would prove less.
    reddens: ClassVar[str] = "I2"
    rest: ClassVar[float] = 60.0

    def __init__(self, dose: Dose, *, control: bool) -> None:
        self.dose = dose
        self.is_control = control

    def strike(self, rig: Rig) -> None:
        """Send the load and break things."""
        raise NotImplementedError

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        """Return how the fault's own targets were met."""
        return []

    def tidy(self, rig: Rig) -> None:
        """Put back what the next run on the same deployment needs."""


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


def execute(
    kind: type[Fault], dose: str, *, database: str, seed: int, control: bool = False
) -> Result:
    """Run a fault once on a deployment of its own, and read the journals."""
    environment = environment_of(kind, control=control)
    strategy = (kind.control_strategy if control else "") or kind.strategy
    with Rig(database=database, seed=seed, strategy=strategy, env=environment) as rig:
        return execute_on(rig, kind, dose, seed=seed, control=control)


def environment_of(kind: type[Fault], *, control: bool) -> dict[str, str]:
    """Return what a run adds to the deployment's environment."""
    return {**kind.environment, **(kind.control if control else {})}


def execute_on(
    rig: Rig, kind: type[Fault], dose: str, *, seed: int, control: bool = False
) -> Result:
    """Run a fault once on a deployment that others are run on, too."""
    begun = time.monotonic()
    fault = kind(kind.doses[dose], control=control)
    result = Result(
        kind.id, kind.title, dose, rig.database_kind, control, seed, fault.dose.requests,
        guards_off=kind.without if control else "",
        reddens=kind.reddens if control else "",
    )  # fmt: skip
    rig.begin(f"{kind.id}{'c' if control else ''}.", environment_of(kind, control=control), seed)
    fault.strike(rig)
    rig.finish_loads()
    rig.note("all clients answered")
    # What a control has broken need not come to rest: a sale too many is seen at once.
    longest = fault.rest + EACH_REST * fault.dose.requests
    rig.rest(CONTROL_REST if control else longest)
    rig.note("at rest")
    journals = rig.journals()
    result.findings = check(journals)
    result.measures = fault.measure(rig, journals)
    result.schedule = rig.schedule
    fault.tidy(rig)
    _count(result, journals)
    result.seconds = round(time.monotonic() - begun, 1)
    return result


def _count(result: Result, journals: Journals) -> None:
    by_name = {finding.invariant: finding for finding in result.findings}
    result.tried = len(journals.told)
    result.lost = by_name["I1"].violations + by_name["I3"].violations
    result.doubled = sum(count > 1 for count in purchases_by_intent(journals).values())
    result.late = sum(
        told.answered_at is None and not told.hung_up for told in journals.told
    ) + sum((told.seconds or 0) > LATE for told in journals.told)
    result.parked = sum(row.state == "needs_review" for row in journals.announcements)
