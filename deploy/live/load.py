"""A small load: the same arrivals, with the same parcels, for every stack that is watched.

For seeing, not for measuring: `loadtests` measures.
"""

import asyncio
import contextlib
import itertools
import random
from collections.abc import Callable, Iterable
from typing import Any

from aiohttp import ClientSession

from deploy.live.target import Target
from deploy.live.window import Window, percentile
from deploy.welcome import ADDRESS

# Per second. Two cores carry two stacks, this load and the page up to about here.
HIGHEST_RATE = 100.0
# Open requests at one stack; what arrives beyond is counted as an error, as a client's own
# time-out would be. Descriptors set the limit, and 10,000 dots are as many as a page can use.
MOST_OPEN = 10_000
# Seconds: over the answer's own deadline (55 s), where a shop's library gives up.
TIME_OUT = 65.0
SEED = 1
# Shipping methods by weight: a quick express carrier, and one that answers at once. Healthy, they
# keep two of five workers busy at six parcels a second.
MIX = {20: 6, 8: 4}


# What becomes of a parcel: label in the answer (synchronous), accepted (asynchronous), a 202 to a
# synchronous one (the label comes later), all else.
COUNTS = ("sent", "labels", "accepted", "late", "errors")


class Shop:
    """A client of one stack; counts what became of its requests since the start."""

    def __init__(self, session: ClientSession, target: Target) -> None:
        self._session = session
        self._target = target
        self._counts = dict.fromkeys(COUNTS, 0)
        self._window = Window()  # of the synchronous requests

    def read(self) -> dict[str, Any]:
        """Return counts, and the synchronous requests' latencies of late in seconds."""
        recent = self._window.latencies()
        return {
            **self._counts,
            "open": self._window.open,
            "p50": percentile(recent, 0.50),
            "p95": percentile(recent, 0.95),
            "p99": percentile(recent, 0.99),
        }

    async def send(self, parcel: dict[str, Any]) -> None:
        """Send a parcel and count what becomes of it."""
        self._counts["sent"] += 1
        if self._window.open >= MOST_OPEN:
            self._counts["errors"] += 1
            return
        number = self._window.begin() if "request_label" in parcel else 0
        body = {"parcel": parcel}
        status = await self._target.ask(self._session, "POST", "/api/v2/parcels", TIME_OUT, body)
        if number:
            self._window.end(number, counts=status in (200, 202))
        became = {200: "labels" if number else "accepted", 202: "late"}.get(status, "errors")
        self._counts[became] += 1


class Load:
    """Sends at `rate` a second, `share` of them synchronous (0 to 1), to all shops alike."""

    def __init__(self, shops: Callable[[], Iterable[Shop]]) -> None:
        self._shops = shops
        self._changed = asyncio.Event()
        self.rate = 0.0
        self.share = 0.8

    def set(self, *, rate: float | None = None, share: float | None = None) -> None:
        """Change the knobs, held within their ends."""
        if rate is not None:
            self.rate = min(max(rate, 0.0), HIGHEST_RATE)
        if share is not None:
            self.share = min(max(share, 0.0), 1.0)
        self._changed.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for seed in itertools.count(SEED):
                self._changed.clear()
                if self.rate > 0:
                    await self._send_on_schedule(group, seed)
                else:
                    await self._changed.wait()

    async def _send_on_schedule(self, group: asyncio.TaskGroup, seed: int) -> None:
        """Go by one schedule until a knob is turned."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        chance = random.Random(seed)
        while True:
            due += chance.expovariate(self.rate)  # clients that know nothing of each other
            pause = due - loop.time()
            if pause > 0:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), pause)
            if self._changed.is_set():
                return
            method = chance.choices(list(MIX), list(MIX.values()))[0]
            wish = "request_label" if chance.random() < self.share else "request_label_async"
            parcel = {**ADDRESS, wish: True, "shipment": {"id": method}}
            for shop in self._shops():
                group.create_task(shop.send(parcel))
