"""A second stack for the page: another strategy under the same arrivals."""

import asyncio
import re
from pathlib import Path

from deploy import strategy as strategies
from deploy.live.collector import Collector
from deploy.live.target import Target
from deploy.simulator import Simulator
from deploy.stack import Stack

# What would make the comparison another one; a strategy's sizes are its own.
SAME = re.compile("(CARRIER|SIMULATOR)_(?!URL|LEDGER)|THROTTLE_|TIME_SCALE|WAIT_")
# Short against what a person waits for after Ctrl-C.
AGAIN_SECONDS = 0.2


class SecondStack:
    """At most one further stack, started and stopped in a thread."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._stack: Stack | None = None
        self._target: Target | None = None
        self._task: asyncio.Task[None] | None = None
        self.name = ""
        self.state = ""

    def choices(self) -> list[str]:
        """Return the strategies that could be started."""
        first = {watch.target.strategy.name for watch in self._collector.watches[:1]}
        return [name for name in strategies.names() if name not in first]

    def start(self, name: str) -> str:
        """Begin to start a strategy; return why not, or an empty string."""
        if name not in self.choices():
            return f"there is no strategy {name!r} to compare with"
        if self._task is not None and not self._task.done():
            return f"{self.name} is being {self.state}"
        try:
            strategies.load_available(name)
        except strategies.StrategyError as error:
            return str(error)
        self._task = asyncio.create_task(self._exchange(name))
        return ""

    def stop(self) -> None:
        """Begin to end the second stack."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._end())

    async def _exchange(self, name: str) -> None:
        await self._end()
        self.name, self.state = name, "started"
        # Below the first one's files.
        first = self._collector.watches[0].target.environment
        same = {key: first[key] for key in first if SAME.match(key)}
        self._stack = stack = Stack(name, env=same, run_dir=Path(first["RUN_DIR"]) / "beside")
        try:
            await asyncio.to_thread(stack.open)
        except Exception as error:  # whatever a strategy's start may fail of: the page says it
            self._stack = None
            self.state = f"{name} did not start: {str(error).splitlines()[0]}"
            return
        self._target = Target(
            dict(stack.env),
            lambda: [stack.pid(name) for name in stack.names if stack.running(name)],
        )
        joins = self._collector.add(self._target).simulator
        try:
            await asyncio.to_thread(_share, self._collector.watches[0].simulator, joins)
            self.state = ""
        except (OSError, RuntimeError) as error:
            self.state = f"{name} may be without the first one's outage: {error}"

    async def _end(self) -> None:
        if self._target is not None:
            self._collector.remove(self._target)
        if self._stack is not None:
            self.state = "stopped"
            await asyncio.to_thread(self._stack.close)
        self._stack = self._target = None
        self.name = self.state = ""

    async def close(self) -> None:
        """End at once what there is, also what is only being started: nobody waits for it."""
        while self._stack is not None:
            changing = [self._task] if self._task and not self._task.done() else []
            await asyncio.to_thread(self._stack.close, graceful=False)
            if not changing:
                break
            # Its thread gives up where what it has started dies; it may start more before.
            await asyncio.wait(changing, timeout=AGAIN_SECONDS)


def _share(first: Simulator, joins: Simulator) -> None:
    """Begin again, at both, what goes on at the first: else a carrier flaps out of step."""
    for fault in first.faults():
        if fault["state"] == "active":
            again = {**fault["params"], "after": 0, "for": fault["left"]}
            for simulator in (joins, first):
                simulator.fault(fault["carrier"], fault["kind"], again)
