"""Scenarios: small declarative files. `loadtests/scenarios/README.md` describes their keys.

Users' own are given by their path: `python -m loadtests run ./mine.toml`.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from loadtests import arrivals, calls
from loadtests.arrivals import Closed, Schedule

FOLDER = Path(__file__).parent / "scenarios"
TARGETS = ("app", "hub")
ACCOUNTS = (1, 2)
EVENTS = ("fault", "heal", "reload")
# Seconds: an announcement that meets no fault ends well within them.
SETTLE = 20.0
_EVENT = {*EVENTS, "at", "carrier", "with"}


class ScenarioError(ValueError):
    """A scenario's file or its parameters make no sense."""


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """Requests of one kind, by one of the two accounts.

    `carrier` is named where the stream needs one.
    """

    name: str
    call: str
    arrivals: Schedule | Closed
    method: int = 8
    carrier: str = ""
    target: str = "app"
    account: int = 1
    begin: float = 0.0
    time_out: float = 60.0


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens `at` seconds after the phase's start."""

    at: float
    kind: str
    what: str
    carrier: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Phase:
    """Streams that run together; what has not ended after `cap` seconds is cut off."""

    name: str
    streams: tuple[StreamSpec, ...]
    events: tuple[Event, ...]
    cap: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario with all its parameters filled in.

    `receivers`: so many webhooks of the second account lead to one that never answers. `settle`: at
    most so many seconds, after the last phase, for what was accepted to come to its end.
    """

    name: str
    title: str
    question: str
    parameters: Mapping[str, float]
    carriers: Mapping[str, Mapping[str, Any]]
    environment: Mapping[str, str]
    receivers: int
    variants: Mapping[str, Mapping[str, str]]
    phases: tuple[Phase, ...]
    settle: float
    charts: tuple[str | list[str], ...] = ()

    def fixed_latency(self, carrier: str) -> float | None:
        """Return how many seconds that carrier always takes, if it does."""
        return self.carriers.get(carrier, {}).get("fixed")


def names(folder: Path = FOLDER) -> list[str]:
    """Return the names of our own scenarios, sorted."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def parameters_of(name: str) -> dict[str, float]:
    """Return a scenario's parameters and their defaults, for its flags."""
    return dict(_read(name).get("parameters", {}))


def load(
    name: str, *, quick: bool = False, overrides: Mapping[str, float] | None = None
) -> Scenario:
    """Read a scenario by its name or its file's path; raise ScenarioError for what makes no sense.

    `overrides` wins over `[quick]`, which wins over `[parameters]`.
    """
    raw = _read(name)
    values = dict(raw.get("parameters", {}))
    for changes in (raw.get("quick", {}) if quick else {}, overrides or {}):
        if stray := sorted(set(changes) - set(values)):
            known = ", ".join(values) or "none"
            raise ScenarioError(f"{name} has no parameter {', '.join(stray)}: it has {known}")
        values |= changes
    filled = _fill(raw, values, name)
    try:
        return _scenario(Path(name).stem, filled, values)
    except (KeyError, TypeError, ValueError) as error:
        raise ScenarioError(f"{name}: {type(error).__name__}: {error}") from error


def _read(name: str) -> dict[str, Any]:
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    try:
        raw = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ScenarioError(f"no scenario {name!r}; there are: {', '.join(names())}") from None
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{path}: {error}") from None
    _refuse_stray(raw, _keys(Scenario) - {"name"} | {"quick"}, str(path))
    return raw


def _keys(kind: type) -> set[str]:
    return {each.name for each in fields(kind)}


def _refuse_stray(raw: Mapping[str, Any], known: set[str], where: str) -> None:
    """Refuse what nobody reads: an outage that was misspelt would be a day without one."""
    if stray := sorted(set(raw) - known):
        raise ScenarioError(f"{where}: unknown keys {', '.join(stray)}")


def _fill(value: Any, values: Mapping[str, float], name: str) -> Any:
    """Replace each string `$parameter` by the parameter's value."""
    if isinstance(value, dict):
        return {key: _fill(inner, values, name) for key, inner in value.items()}
    if isinstance(value, list):
        return [_fill(inner, values, name) for inner in value]
    if isinstance(value, str) and value.startswith("$"):
        if value[1:] not in values:
            known = ", ".join(values) or "none"
            raise ScenarioError(f"{name}: {value} is no parameter: there are {known}")
        return values[value[1:]]
    return value


def _scenario(name: str, raw: Mapping[str, Any], values: Mapping[str, float]) -> Scenario:
    phases = tuple(_phase(number, phase) for number, phase in enumerate(raw["phases"], 1))
    if not phases:
        raise ScenarioError("a scenario needs a phase")
    _refuse_doubles([phase.name for phase in phases], "phases")
    return Scenario(
        name=name,
        title=raw["title"],
        question=raw.get("question", ""),
        parameters=values,
        carriers=raw.get("carriers", {}),
        environment=_texts(raw.get("environment", {})),
        receivers=int(raw.get("receivers", 0)),
        variants={key: _texts(value) for key, value in raw.get("variants", {"": {}}).items()},
        phases=phases,
        charts=tuple(raw.get("charts", ())),
        settle=_number(raw.get("settle", SETTLE), "settle"),
    )


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in values.items()}


def _phase(number: int, raw: Mapping[str, Any]) -> Phase:
    name = raw.get("name", f"phase {number}")
    _refuse_stray(raw, _keys(Phase), name)
    phase = Phase(
        name=name,
        streams=tuple(_stream(stream) for stream in raw["streams"]),
        events=tuple(sorted(map(_event, raw.get("events", [])), key=lambda event: event.at)),
        cap=_number(raw["cap"], f"{name}: cap"),
    )
    _refuse_doubles([stream.name for stream in phase.streams], f"{name}: streams")
    if late := [event for event in phase.events if event.at >= phase.cap]:
        raise ScenarioError(f"{name}: at {late[0].at} the phase is over (cap {phase.cap})")
    return phase


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ScenarioError(f"{what} is a number of seconds, not {value!r}")
    return value


def _refuse_doubles(names: list[str], what: str) -> None:
    """Refuse names that would put two things' figures into one."""
    if doubles := sorted({name for name in names if names.count(name) > 1}):
        raise ScenarioError(f"{what} have names of their own: {', '.join(doubles)} is there twice")


def _stream(raw: Mapping[str, Any]) -> StreamSpec:
    spec = StreamSpec(**{**raw, "arrivals": arrivals.from_mapping(raw["arrivals"])})
    if spec.target not in TARGETS:
        raise ScenarioError(f"stream {spec.name}: target {spec.target!r} is none of {TARGETS}")
    if spec.call not in calls.KINDS:
        raise ScenarioError(f"stream {spec.name}: call {spec.call!r} is none of {[*calls.KINDS]}")
    if spec.account not in ACCOUNTS:
        raise ScenarioError(f"stream {spec.name}: account {spec.account!r} is none of {ACCOUNTS}")
    _number(spec.begin, f"stream {spec.name}: begin")
    _number(spec.time_out, f"stream {spec.name}: time_out")
    return spec


def _event(raw: Mapping[str, Any]) -> Event:
    kinds = [kind for kind in EVENTS if kind in raw]
    if len(kinds) != 1:
        raise ScenarioError(f"an event has one of {EVENTS}: {dict(raw)}")
    [kind] = kinds
    _refuse_stray(raw, _EVENT, kind)
    if kind == "fault" and not raw.get("carrier"):
        raise ScenarioError(f"fault {raw[kind]!r}: at which carrier?")
    return Event(
        at=_number(raw["at"], f"{kind} {raw[kind]}: at"),
        kind=kind,
        what=raw[kind],
        carrier=raw.get("carrier", ""),
        settings=raw.get("with", {}),
    )
