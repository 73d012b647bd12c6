"""The canary: a cheap read twice a second, as any client of the shop would make it."""

import asyncio
import time

from aiohttp import ClientSession

from deploy.live.target import Target

EVERY = 0.5
# Seconds: a shop gives up about then.
TIME_OUT = 30.0
PATH = "/api/v2/parcels/statuses"


class Canary:
    """Sends on, whatever becomes of the earlier ones."""

    def __init__(self, session: ClientSession, target: Target) -> None:
        self._session = session
        self._target = target
        self._waiting: set[float] = set()
        self._last = 0.0
        self._has_sung = False  # before the stack is up a failure is none
        self._dead = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._sing())
                await asyncio.sleep(EVERY)

    async def _sing(self) -> None:
        began = time.monotonic()
        self._waiting.add(began)
        sings = await self._target.ask(self._session, "GET", PATH, TIME_OUT) == 200
        self._waiting.remove(began)
        if sings:  # a refused connection is no quick answer
            self._last = time.monotonic() - began
        self._has_sung |= sings
        self._dead = self._has_sung and not sings

    def read(self) -> float | None:
        """Return the latest's seconds, or how long the oldest has been waiting by now.

        None where the latest had no answer, or another one than it should.
        """
        now = time.monotonic()
        return None if self._dead else max(now - min(self._waiting, default=now), self._last)
