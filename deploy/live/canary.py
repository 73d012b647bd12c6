"""The canary: a cheap read twice a second, as any client of the shop would make it."""

import asyncio

from aiohttp import ClientSession

from deploy.live.target import Target
from deploy.live.window import Window, percentile

EVERY = 0.5
# Seconds: a shop gives up about then.
TIME_OUT = 30.0
PATH = "/api/v2/parcels/statuses"


class Canary:
    """Sends on, whatever becomes of the earlier ones."""

    def __init__(self, session: ClientSession, target: Target) -> None:
        self._session = session
        self._target = target
        self._window = Window()
        self._has_sung = False  # before the stack is up a failure is none
        self._dead = False

    async def run(self) -> None:
        """Sing until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._sing())
                await asyncio.sleep(EVERY)

    async def _sing(self) -> None:
        number = self._window.begin()
        sings = await self._target.ask(self._session, "GET", PATH, TIME_OUT) == 200
        self._window.end(number, counts=sings)  # a refused connection is no quick answer
        self._has_sung |= sings
        self._dead = self._has_sung and not sings

    def read(self) -> dict[str, float | None]:
        """Return seconds: `now` is the latest, or how long the oldest has been waiting by now.

        None where the latest had no answer, or another one than it should.
        """
        waiting, last = self._window.longest_wait, self._window.last
        return {
            "now": None if self._dead else waiting if last is None else max(waiting, last),
            "p95": percentile(self._window.latencies(), 0.95),
        }
