"""`make demo`: ninety seconds, no typing: one carrier hangs, two deployments, the same arrivals.

    python -m deploy.demo [--short] [--strategies uwsgi-prefork asgi-hold] [--report DIR]

What it says is read from the collector that feeds the live page, never from a script. Exit codes:
0 shown, or stopped by Ctrl-C; 1 a stack did not start; 2 refused to start; 143, 129 after
SIGTERM, SIGHUP.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from deploy.demo_report import OUTAGE, Part, canary_of, summary, verdict, write_report
from deploy.demo_report import seconds as duration
from deploy.live.access import HEADER
from deploy.loopback import ask_json, events
from deploy.prepare import PrepareError
from deploy.readiness import NotReadyError
from deploy.run import end_by_signals
from deploy.stack import Stack
from deploy.stores import StoreMissingError
from deploy.strategy import StrategyError, load_available

STRATEGIES = ("uwsgi-prefork", "asgi-hold")
CARRIER = "colibri"
# Two of five workers are busy at this while the carrier is well.
RATE = 6.0
FAILED, REFUSED = 1, 2
# Seconds. A shop's page feels slow from a third of a second on; at two its clients go.
WELL, DEAD = 0.35, 2.0
SAFETY = 60.0
# Seconds. Once both have answered well for so long they are warm; a machine on which they don't
# within a quarter of a minute is too busy for more than that to help.
SETTLED, WARM_UP = 2.0, 15.0
# Seconds between two lines of figures, where nothing happens.
QUIET = 5.0


@dataclass(frozen=True)
class Script:
    """How long each part lasts, and how long a carrier may take, in seconds.

    Less than the usual 30, or the breaker's turn would come after the end: it opens when ten calls
    have run into the deadline, and its probe of a carrier that hangs takes as long.
    """

    healthy: float
    outage: float
    recovery: float
    call_deadline: float


FULL = Script(20, 40, 30, 15)
SHORT = Script(6, 16, 12, 5)


def main(arguments: Sequence[str] | None = None) -> int:
    """Show it; return the exit code."""
    options = _parse(arguments)
    console = Console(highlight=False, soft_wrap=True)
    try:
        for name in options.strategies:
            load_available(name)
    except StrategyError as error:
        print(error, file=sys.stderr)
        return REFUSED
    end_by_signals()
    demo = Demo(console, SHORT if options.short else FULL, options.strategies)
    try:
        parts = demo.run()
    except KeyboardInterrupt:
        print("Stopped.")
        return 0
    except (NotReadyError, PrepareError, StoreMissingError) as error:
        print(f"{error}\nWhat is missing here, and how to get it:  make doctor", file=sys.stderr)
        return FAILED
    if options.report is not None:
        demo.say(f"The report lies at {write_report(options.report, parts)}")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deploy.demo", description="Show an outage.")
    parser.add_argument("--short", action="store_true", help="35 s instead of 90")
    parser.add_argument("--strategies", nargs=2, default=STRATEGIES, metavar="NAME")
    parser.add_argument("--report", type=Path, help="write report.md and its chart here")
    options = parser.parse_args(arguments)
    if len(set(options.strategies)) == 1:
        parser.error("it compares two strategies")
    return options


class Demo:
    """Two stacks, one load, one outage; all is asked of the live page, as its buttons do."""

    def __init__(self, console: Console, script: Script, names: Sequence[str]) -> None:
        self._console = console
        self._script = script
        self._second = names[1]
        deadline = {"CARRIER_CALL_DEADLINE": f"{script.call_deadline:g}"}
        self.stack = Stack(names[0], env=deadline, live=True)
        self._began = 0.0
        self._spoke = 0.0
        self._heard: dict[tuple[str, str], Any] = {}
        self._news: Iterator[dict[str, Any]] = iter(())

    @property
    def address(self) -> str:
        return f"{self.stack.env['LIVE_URL']}/"

    def say(self, words: str, *, loud: bool = False) -> None:
        """Print a line with the time since the first parcel."""
        since = time.monotonic() - self._began if self._began else 0.0
        clock = f"{int(since // 60)}:{int(since % 60):02d}"
        self._console.print(f"{clock}  {words}", style="bold" if loud else None)
        self._spoke = time.monotonic()

    def run(self) -> list[Part]:
        """Start all, play the parts, end all; return what each part measured."""
        self.say(f"Starting {self.stack.strategy.name} …")
        with self.stack:
            self.say(f"Watch it: {self.address}", loud=True)
            self._news = events(f"{self.address}events")
            self.say(f"Starting {self._second} …")
            self._ask("beside", {"strategy": self._second})
            while len((figures := next(self._news))["targets"]) < 2:
                if "did not start" in (state := figures["beside"]["state"]):
                    raise NotReadyError(state)
            self._warm_up()
            parts = self._play()
            self._console.print(f"\n{verdict(parts)}", style="bold", markup=False)
            self._console.print(summary(parts), markup=False)
        return parts

    def _ask(self, what: str, body: object = None, method: str | None = None) -> None:
        ask_json(f"{self.address}api/{what}", body, method=method, more={HEADER: "1"})

    def _warm_up(self) -> None:
        """Let the first parcels through: servers that have just started are slow of themselves."""
        self._ask("load", {"rate": RATE})
        end = time.monotonic() + WARM_UP
        since_well = time.monotonic()
        while time.monotonic() < end and time.monotonic() - since_well < SETTLED:
            figures = next(self._news)
            if any(canary_of(target) > WELL for target in figures["targets"]):
                since_well = time.monotonic()

    def _play(self) -> list[Part]:
        script, outage = self._script, f"carriers/{CARRIER}/outage"
        self._began = time.monotonic()
        self.say(f"All carriers are well. {RATE:g} parcels a second go to each.", loud=True)
        parts = [self._part("healthy", script.healthy)]
        # It is ended below; the length is for a demo that is killed meanwhile.
        self._ask(outage, {"kind": "hang", "for": 2 * script.outage + SAFETY})
        self.say(f"The carrier {CARRIER} hangs: it takes every call and answers none.", loud=True)
        parts.append(self._part(OUTAGE, script.outage))
        self._ask(outage, method="DELETE")
        self.say(f"{CARRIER} answers again.", loud=True)
        parts.append(self._part("recovery", script.recovery))
        self._ask("load", {"rate": 0})
        return parts

    def _part(self, name: str, seconds: float) -> Part:
        """Look on for so long."""
        part, end = Part(name), time.monotonic() + seconds
        self._look_on(part, lambda: time.monotonic() < end)
        return part

    def _look_on(self, part: Part, go_on: Callable[[], bool]) -> None:
        while go_on():
            figures = next(self._news)
            part.looks.append(figures)
            for target in figures["targets"]:
                self._comment(target)
            if time.monotonic() - self._spoke > QUIET:
                self.say(" | ".join(_line(target) for target in figures["targets"]))

    def _comment(self, target: dict[str, Any]) -> None:
        """Say what has turned at one stack since the last look."""
        name, seconds = target["name"], canary_of(target)
        # Between the two limits it is as it was.
        well = seconds <= (DEAD if self._heard.get((name, "alive"), True) else WELL)
        if self._turned((name, "alive"), well):
            if seconds > DEAD:
                busy = f"{target['waiting']} of {target['slots'] or '∞'} workers wait for a carrier"
                self.say(f"{name}: another page now takes over {DEAD:g} s ({busy}).", loud=True)
            else:
                self.say(f"{name}: another page takes {duration(seconds)} again.", loud=True)
        breaker = target["carriers"][CARRIER]["breaker"] if target["carriers"] else "closed"
        if self._turned((name, "breaker"), breaker == "closed"):
            state = "closes" if breaker == "closed" else "opens: no further call is made"
            self.say(f"{name}: the breaker of {CARRIER} {state}.", loud=True)

    def _turned(self, key: tuple[str, str], value: bool) -> bool:
        before = self._heard.get(key, True)
        self._heard[key] = value
        return before != value


def _line(target: dict[str, Any]) -> str:
    return (
        f"{target['name']}: other pages {duration(canary_of(target))}, "
        f"{target['goodput']:.1f} labels/s, {target['serving']}/{target['slots'] or '∞'} busy, "
        f"{target['holds']} held"
    )


if __name__ == "__main__":
    sys.exit(main())
