"""Start an outage at a simulated carrier, or end it."""

import re
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any
from urllib.parse import quote

from shipping.simulation import ask
from shipping.terminal import TerminalCommand, manage

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
# What a kind needs to be seen at once; the simulator's own defaults are for tests.
_PARAMETERS: dict[str, dict[str, Any]] = {
    "slow": {"seconds": 8},
    "flap": {"of": "hang", "with": {"calls": "all"}},
}
# These don't strike single calls. All others strike each call, the breaker's probe included, or
# the breaker would close in the middle of the outage.
_WHOLE = {"refuse", "flap"}


def duration(text: str) -> float:
    """Read `30`, `30s`, `2m` or `1h` as seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not match or float(match[1]) <= 0:
        raise ArgumentTypeError(f"{text!r} is no duration: write 30s, 2m or 1h")
    return float(match[1]) * _SECONDS[match[2]]


class Command(TerminalCommand):
    help = "Start an outage at a simulated carrier, or end all its outages."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("carrier", help="its code, as `carriers` lists it")
        parser.add_argument("kind", help="slow, hang, error, reset_before, flap, or another "
                            "that carriers/simulator/README.md lists; or end")  # fmt: skip
        parser.add_argument("--for", type=duration, dest="seconds", metavar="30s",
                            help="duration; by default until `end`")  # fmt: skip

    def handle(
        self, *args: Any, carrier: str, kind: str, seconds: float | None, json: bool, **options: Any
    ) -> None:
        faults = f"/carriers/{quote(carrier, safe='')}/faults"
        if kind == "end":
            ask("DELETE", faults)
        else:
            parameters = dict(_PARAMETERS.get(kind, {}))
            parameters |= {} if kind in _WHOLE else {"calls": "all"}
            parameters |= {} if seconds is None else {"for": seconds}
            ask("PUT", f"{faults}/{quote(kind, safe='')}", parameters)
        if json:
            self.show([{"carrier": carrier, "kind": kind, "seconds": seconds}], as_json=True)
        elif kind == "end":
            self.stdout.write(f"{carrier} is well again.")
        else:
            until = f"for {seconds:g} s" if seconds else "until you end it"
            self.stdout.write(
                f"{carrier}: {kind}, {until}. End it:  {manage(f'outage {carrier} end')}"
            )
