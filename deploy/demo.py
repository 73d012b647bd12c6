"""`make demo`: ninety seconds, no typing: one carrier hangs, two deployments, the same arrivals.

    python -m deploy.demo [--short] [--strategies uwsgi-prefork asgi-hold] [--report DIR]

What it says is read from the collector that feeds the live page, never from a script. Exit codes:
0 shown; 1 a stack did not start; 2 refused to start; 130, 143 after a signal.
"""

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from deploy import strategy as strategies
from deploy.child import raise_descriptor_limit
from deploy.demo_report import Part, summary, write_report
from deploy.live.access import Access
from deploy.live.app import Live
from deploy.live.beside import target_of
from deploy.live.faults import fault_of
from deploy.live.server import Embedded
from deploy.ports import free_port
from deploy.prepare import PrepareError
from deploy.readiness import NotReadyError
from deploy.stack import Stack
from deploy.stores import StoreMissingError

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
    for name in options.strategies:
        try:
            lacking = strategies.why_unavailable(strategies.load(name))
        except strategies.StrategyError as error:
            lacking = str(error)
        if lacking:
            print(f"{name}: {lacking}", file=sys.stderr)
            return REFUSED
    demo = Demo(console, SHORT if options.short else FULL, options.strategies)
    try:
        asyncio.run(_until_signalled(demo, options.report))
    except KeyboardInterrupt:
        return 130
    except asyncio.CancelledError:
        return 143
    except (NotReadyError, PrepareError, StoreMissingError) as error:
        print(f"{error}\nWhat is missing here, and how to get it:  make doctor", file=sys.stderr)
        return FAILED
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deploy.demo", description="Show an outage.")
    parser.add_argument("--short", action="store_true", help="35 s instead of 90")
    parser.add_argument("--strategies", nargs=2, default=STRATEGIES, metavar="NAME")
    parser.add_argument("--report", type=Path, help="write report.md here")
    return parser.parse_args(arguments)


async def _until_signalled(demo: "Demo", report: Path | None) -> None:
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    parts = await demo.run()
    if report is not None:
        demo.say(f"The report lies at {write_report(report, parts)}")


class Demo:
    """Two stacks, one load, one outage."""

    def __init__(self, console: Console, script: Script, names: Sequence[str]) -> None:
        self._console = console
        self._script = script
        self._names = names
        self._began = 0.0
        self._spoke = 0.0
        self._heard: dict[tuple[str, str], Any] = {}
        self.address = ""

    def say(self, words: str, *, loud: bool = False) -> None:
        """Print a line with the time since the first parcel."""
        since = time.monotonic() - self._began if self._began else 0.0
        clock = f"{int(since // 60)}:{int(since % 60):02d}"
        self._console.print(f"{clock}  {words}", style="bold" if loud else None)
        self._spoke = time.monotonic()

    async def run(self) -> list[Part]:
        """Start all, play the parts, end all; return what each part measured."""
        raise_descriptor_limit()
        async with AsyncExitStack() as stack:
            stacks = [await stack.enter_async_context(self._opened(name)) for name in self._names]
            live = Live(Access(demo=True), [target_of(one) for one in stacks])
            port = free_port()
            await stack.enter_async_context(Embedded(live, port))
            self.address = f"http://127.0.0.1:{port}/"
            self.say(f"Watch it: {self.address}", loud=True)
            await self._warm_up(live)
            parts = await self._play(live, stacks)
        self._console.print(summary(parts), markup=False)
        return parts

    @asynccontextmanager
    async def _opened(self, name: str) -> AsyncIterator[Stack]:
        self.say(f"Starting {name} …")
        stack = Stack(name, env={"CARRIER_CALL_DEADLINE": f"{self._script.call_deadline:g}"})
        try:
            await asyncio.to_thread(stack.open)
            yield stack
        finally:
            # Not in order but at once: nobody waits for these labels any more.
            await asyncio.to_thread(lambda: stack.close(graceful=False))

    async def _warm_up(self, live: Live) -> None:
        """Let the first parcels through: servers that have just started are slow of themselves."""
        live.collector.load.set(rate=RATE)
        end = time.monotonic() + WARM_UP
        since_well = time.monotonic()
        while time.monotonic() < end and time.monotonic() - since_well < SETTLED:
            figures = await live.collector.news()
            if any(target["canary"]["now"] > WELL for target in figures["targets"]):
                since_well = time.monotonic()

    async def at_turn(self, name: str, stacks: list[Stack]) -> None:
        """Do what belongs to the end of a part, while all runs on: nothing here."""

    async def _play(self, live: Live, stacks: list[Stack]) -> list[Part]:
        script, collector = self._script, live.collector
        self._began = time.monotonic()
        self.say(f"All carriers are well. {RATE:g} parcels a second go to each.", loud=True)
        parts = [await self._part("healthy", script.healthy, live, stacks)]
        # It is ended below; the length is for a demo that is killed meanwhile.
        kind, parameters = fault_of("hang", 2 * script.outage + SAFETY)
        for watch in collector.watches:
            await asyncio.to_thread(watch.simulator.fault, CARRIER, kind, parameters)
        self.say(f"The carrier {CARRIER} hangs: it takes every call and answers none.", loud=True)
        parts.append(await self._part("outage", script.outage, live, stacks))
        for watch in collector.watches:
            await asyncio.to_thread(watch.simulator.heal, CARRIER)
        self.say(f"{CARRIER} answers again.", loud=True)
        parts.append(await self._part("recovery", script.recovery, live, stacks))
        collector.load.set(rate=0)
        return parts

    async def _part(self, name: str, seconds: float, live: Live, stacks: list[Stack]) -> Part:
        """Look on for so long, and then until all is done that belongs to the turn."""
        part = Part(name)
        await self._look_on(part, live, asyncio.create_task(asyncio.sleep(seconds)))
        await self._look_on(part, live, asyncio.create_task(self.at_turn(name, stacks)))
        return part

    async def _look_on(self, part: Part, live: Live, until: asyncio.Task[None]) -> None:
        while not until.done():
            figures = await live.collector.news()
            part.add(figures)
            for target in figures["targets"]:
                self._comment(target)
            if time.monotonic() - self._spoke > QUIET:
                self.say(" | ".join(_line(target) for target in figures["targets"]))
        await until

    def _comment(self, target: dict[str, Any]) -> None:
        """Say what has turned at one stack since the last look."""
        name, seconds = target["name"], target["canary"]["now"]
        if self._turned((name, "alive"), _mood(seconds, self._heard.get((name, "alive"), True))):
            if seconds > DEAD:
                busy = f"{target['waiting']} of {target['slots']} workers wait for a carrier"
                self.say(f"{name}: a cheap read now takes over {DEAD:g} s ({busy}).", loud=True)
            else:
                self.say(f"{name}: a cheap read takes {_duration(seconds)} again.", loud=True)
        breaker = target["carriers"][CARRIER]["breaker"] if target["carriers"] else "closed"
        if self._turned((name, "breaker"), breaker == "closed"):
            state = "closes" if breaker == "closed" else "opens: no further call is made"
            self.say(f"{name}: the breaker of {CARRIER} {state}.", loud=True)

    def _turned(self, key: tuple[str, str], value: bool) -> bool:
        before = self._heard.get(key, True)
        self._heard[key] = value
        return before != value


def _mood(seconds: float, was_alive: bool) -> bool:
    """Say whether a canary lives; between the two limits it is as it was."""
    return seconds <= WELL or (was_alive and seconds <= DEAD)


def _line(target: dict[str, Any]) -> str:
    return (
        f"{target['name']}: canary {_duration(target['canary']['now'])}, "
        f"{target['goodput']:.1f} labels/s, {target['serving']}/{target['slots']} busy, "
        f"{target['holds']} held"
    )


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 0.1 else f"{seconds:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
