"""What the process is told by its environment; a bad value ends it before it listens."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from carriers.simulator.catalogue import CATALOGUE
from carriers.simulator.latency import Latency, parse

_LATENCY = "SIMULATOR_LATENCY_"
# A day: a slower journey than that is no simulation.
_LONGEST_STEP = 86_400.0


class SettingsError(Exception):
    """A variable of the environment has a value that can't be used."""

    def __init__(self, variable: str, message: str) -> None:
        super().__init__(f"{variable}: {message}")


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and the variable that said so; port 0 takes any free one."""

    host: str
    port: int
    variable: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that is fixed for the life of the process; times in seconds."""

    control: Address
    carriers: Mapping[str, Address]
    latency: Mapping[str, Latency]
    ledger: Path
    seed: int = 1
    tracking_step: float = 60.0


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Read the settings; raises SettingsError, which names the variable."""
    control = _address(environment, "SIMULATOR_URL", 9000)
    carriers = {
        code: _address(environment, f"CARRIER_URL_{code.upper()}", port)
        for port, code in enumerate(CATALOGUE, start=9001)
    }
    _refuse_shared_ports([control, *carriers.values()])
    return Settings(
        control=control,
        carriers=carriers,
        latency=_latencies(environment),
        ledger=Path(environment.get("SIMULATOR_LEDGER") or ".run/ledger.jsonl"),
        seed=_seed(environment),
        tracking_step=_step(environment),
    )


def _address(environment: Mapping[str, str], variable: str, port: int) -> Address:
    url = environment.get(variable) or f"http://127.0.0.1:{port}"
    try:
        parts = urlsplit(url)
        given = parts.port
    except ValueError as error:
        raise SettingsError(variable, f"{url!r}: {error}") from None
    if parts.scheme != "http" or not parts.hostname or given is None:
        raise SettingsError(variable, f"{url!r} is not of the form http://host:port")
    if parts.path.strip("/") or parts.query or parts.username is not None:
        raise SettingsError(variable, f"{url!r}: only http://host:port, nothing around it")
    return Address(parts.hostname, given, variable)


def _refuse_shared_ports(addresses: list[Address]) -> None:
    taken: dict[tuple[str, int], str] = {}
    for address in addresses:
        other = taken.setdefault((address.host, address.port), address.variable)
        if address.port and other != address.variable:
            raise SettingsError(address.variable, f"port {address.port} is {other}'s already")


def _latencies(environment: Mapping[str, str]) -> dict[str, Latency]:
    latencies = {code: spec.latency for code, spec in CATALOGUE.items()}
    for variable, text in environment.items():
        if not variable.startswith(_LATENCY) or not text:
            continue
        code = variable.removeprefix(_LATENCY).lower()
        if code not in CATALOGUE:
            raise SettingsError(variable, f"no such carrier; known: {', '.join(CATALOGUE)}")
        try:
            latencies[code] = parse(text)
        except ValueError as error:
            raise SettingsError(variable, str(error)) from None
    return latencies


def _seed(environment: Mapping[str, str]) -> int:
    text = environment.get("SIMULATOR_SEED") or "1"
    try:
        return int(text)
    except ValueError:
        raise SettingsError("SIMULATOR_SEED", f"{text!r} is not a whole number") from None


def _step(environment: Mapping[str, str]) -> float:
    variable = "SIMULATOR_TRACKING_STEP"
    text = environment.get(variable) or "60"
    try:
        step = float(text)
    except ValueError:
        raise SettingsError(variable, f"{text!r} is not a number of seconds") from None
    if not 0 <= step <= _LONGEST_STEP:
        raise SettingsError(variable, f"{text!r} is not between 0 and {_LONGEST_STEP:.0f}")
    return step
