"""One collector for all servers: it looks four times a second, whoever watches."""

import asyncio
import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from aiohttp import ClientSession, TCPConnector

from deploy.counted import Counted, read_counted
from deploy.live.canary import Canary
from deploy.live.carriers import Guards
from deploy.live.load import Load, Shop
from deploy.live.target import Target
from deploy.processes import Usage, usage
from deploy.rows import Rows, database_of
from deploy.simulator import Simulator

logger = logging.getLogger(__name__)

# Four looks a second: dots move between two of them without a jump, and all looks together cost a
# few per cent of one core.
EVERY = 0.25
# Seconds. The kernel walks all pages of all processes for it, some 50 ms; memory moves slowly.
USAGE_EVERY = 3.0
# Seconds: a click may wait that long for the simulator.
TIME_OUT = 2.0
# Seconds over which a rate is taken: a Poisson stream of 5 a second then wavers by a fifth.
RATE_SPAN = 5.0


class Rate:
    """A counter's growth per second over the last seconds."""

    def __init__(self, span: float = RATE_SPAN) -> None:
        self._span = span
        self._seen: deque[tuple[float, float]] = deque()

    def add(self, now: float, value: float) -> float:
        """Note the counter; a smaller value than before is a restart, and starts anew."""
        if self._seen and value < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, value))
        while len(self._seen) > 2 and self._seen[1][0] <= now - self._span:
            self._seen.popleft()
        (since, first), (until, last) = self._seen[0], self._seen[-1]
        return (last - first) / (until - since) if until > since else 0.0


class Watch:
    """Everything that is asked about one stack."""

    def __init__(self, session: ClientSession, target: Target) -> None:
        self.target = target
        self.simulator = Simulator(target.environment, seconds=TIME_OUT)
        self.canary = Canary(session, target)
        self.shop = Shop(session, target)
        self._guards = Guards(target)
        url = target.environment["DATABASE_URL"]
        self._database = database_of(url)
        path = unquote(url.removeprefix("sqlite:///"))
        self._file = Path(path) if url.startswith("sqlite") else None
        self._usage = Usage(0, 0, None)
        self._usage_at = float("-inf")
        self._rates: defaultdict[str, Rate] = defaultdict(Rate)
        self._carriers: dict[str, dict[str, Any]] = {}
        self._rows = Rows()

    async def look(self) -> dict[str, Any]:
        """Return the stack's figures now; what doesn't answer is as it was."""
        counted, rows, guards = await asyncio.to_thread(self._look)
        self._rows = rows or self._rows
        carriers = {
            code: {**guards[code], **one} for code, one in self._carriers.items() if code in guards
        }
        return {**self._figures(counted), "carriers": carriers}

    def _look(self) -> tuple[Counted, Rows | None, dict[str, dict[str, Any]]]:
        if time.monotonic() - self._usage_at > USAGE_EVERY:
            self._usage = usage(self.target.roots(), self._file)
            self._usage_at = time.monotonic()
        try:
            self._carriers = self._ask_simulator()
        except (OSError, RuntimeError):
            self._carriers = {code: {**one, "gone": True} for code, one in self._carriers.items()}
        counted = read_counted(Path(self.target.environment["PROMETHEUS_MULTIPROC_DIR"]))
        return counted, self._database.read(), self._guards.read()

    def _ask_simulator(self) -> dict[str, dict[str, Any]]:
        faults = [fault for fault in self.simulator.faults() if fault["state"] == "active"]
        now = time.monotonic()
        return {
            carrier["code"]: {
                "title": carrier["name"],
                "in_flight": carrier["in_flight"],
                "oldest": carrier["oldest"],
                "calls": carrier["calls"],
                "rate": self._rates[carrier["code"]].add(now, carrier["calls"]),
                "faults": [
                    {"kind": fault["kind"], "left": fault["left"]}
                    for fault in faults
                    if fault["carrier"] == carrier["code"]
                ],
            }
            for carrier in self.simulator.carriers()
        }

    def _figures(self, counted: Counted) -> dict[str, Any]:
        now, tally = time.monotonic(), self.shop.read()
        announced = sum(n for (_, outcome), n in counted.tries.items() if outcome == "announced")
        rows = self._rows
        connections = rows.connections
        serving = counted.busy.get("serving", 0)
        # Where the worker itself waits there is a row for that, too, but no client is held.
        holds = rows.holds if self.target.holds else 0
        # Whom nobody serves yet: their connections wait at the server's door.
        at_door = max(0, tally["open"] - serving - holds)
        return {
            "name": self.target.strategy.name,
            "title": self.target.strategy.title,
            "family": self.target.strategy.family,
            "base_url": self.target.base_url,
            "slots": self.target.slots,
            "serving": serving,
            "waiting": min(counted.busy.get("waiting", 0), serving),
            "holds": holds,
            "at_door": at_door,
            "to_come": rows.to_come + at_door,
            "queued": sum(states.get("pending", 0) for states in rows.queues.values()),
            "queue_age": rows.oldest,
            "offered": self._rates["offered"].add(now, tally["sent"]),
            "goodput": self._rates["goodput"].add(now, announced),
            "error_rate": self._rates["errors"].add(now, tally["errors"]),
            "announced": announced,
            "clients": tally,
            "canary": self.canary.read(),
            "connections": self._usage.database_files if connections is None else connections,
            "memory": self._usage.memory,
            "processes": self._usage.processes,
        }


class Collector:
    """Watches all targets and keeps the latest figures and a short history for the charts."""

    # Seconds at one point a second: two minutes fill the chart.
    HISTORY = 150

    def __init__(self) -> None:
        self.watches: list[Watch] = []
        self.load = Load(lambda: [watch.shop for watch in self.watches])
        self.latest: dict[str, Any] = {}
        self.history: deque[dict[str, Any]] = deque(maxlen=self.HISTORY)
        self._news = asyncio.Condition()
        self._canaries: dict[str, asyncio.Task[None]] = {}
        self._session: ClientSession | None = None
        self._trouble = ""

    async def __aenter__(self) -> "Collector":
        # A connection for each request, as new clients would: a kept one might have luck with its
        # worker. And no limit to them: the load is open.
        self._session = ClientSession(connector=TCPConnector(limit=0, force_close=True))
        return self

    async def __aexit__(self, *_: object) -> None:
        for canary in self._canaries.values():
            canary.cancel()
        if self._session is not None:
            await self._session.close()

    def add(self, target: Target) -> Watch:
        """Watch one more stack, from now on."""
        if self._session is None:
            raise RuntimeError("a collector is used inside `async with`")
        watch = Watch(self._session, target)
        self.watches.append(watch)
        self._canaries[target.base_url] = asyncio.create_task(watch.canary.run())
        return watch

    def remove(self, target: Target) -> None:
        """Watch this stack no longer."""
        self.watches = [watch for watch in self.watches if watch.target is not target]
        self._canaries.pop(target.base_url).cancel()

    async def run(self, also: Callable[[], dict[str, Any]] = dict) -> None:
        """Look until cancelled; `also` adds to what is told."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.load.run())
            while True:
                started = time.monotonic()
                await self._try_to_look(also)
                await asyncio.sleep(max(0.0, EVERY - (time.monotonic() - started)))

    async def _try_to_look(self, also: Callable[[], dict[str, Any]]) -> None:
        """Look; say once what it fails of, and look again: else all wait for news for ever."""
        try:
            await self._look(also())
        except Exception as error:  # whatever a stack in trouble may answer
            if repr(error) != self._trouble:
                logger.exception("A look failed; the figures stay as they were")
            self._trouble = repr(error)
        else:
            self._trouble = ""

    async def _look(self, more: dict[str, Any]) -> None:
        found = await asyncio.gather(*(watch.look() for watch in self.watches))
        load = {"rate": self.load.rate, "share": self.load.share}
        self.latest = {"at": time.time(), "load": load, "targets": found, **more}
        self._remember()
        async with self._news:
            self._news.notify_all()

    def _remember(self) -> None:
        if self.history and self.latest["at"] - self.history[-1]["at"] < 1.0:
            return
        targets = self.latest["targets"]
        self.history.append(
            {
                "at": self.latest["at"],
                "outage": any(c["faults"] for one in targets for c in one["carriers"].values()),
                "points": {
                    one["name"]: [one["canary"], one["goodput"], one["to_come"]] for one in targets
                },
            }
        )

    async def news(self) -> dict[str, Any]:
        """Wait for the next figures and return them."""
        async with self._news:
            await self._news.wait()
        return self.latest
