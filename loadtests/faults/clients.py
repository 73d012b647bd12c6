"""Shops that send parcels and write down each answer, while the main thread breaks things."""

import asyncio
import base64
import contextlib
import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from deploy.welcome import ADDRESS as RECEIVER
from loadtests.faults.journals import Told

# Shipping method by carrier, and what each can do about a lost answer.
METHODS = {"postnl": 8, "tortoise": 10, "colibri": 20, "lantern": 30, "meridian": 40}
# Seconds a client waits at most: over every wait that the deployments of this suite grant.
PATIENCE = 90.0


@dataclass(frozen=True, slots=True)
class Wish:
    """One request: what is wanted, how, and what the client does with its patience.

    `hang_up`: seconds after which it closes its connection. Requests that share an intent want one
    label between them.
    """

    intent: str
    account: int
    carrier: str
    synchronous: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    hang_up: float | None = None

    def body(self) -> dict[str, Any]:
        asks = "request_label" if self.synchronous else "request_label_async"
        parcel = {
            "shipment": {"id": METHODS[self.carrier]},
            "order_number": self.intent,
            asks: True,
        }
        return {"parcel": RECEIVER | parcel | dict(self.fields)}


class Load(threading.Thread):
    """Sends wishes, so many at once; `told` fills up meanwhile. Start it, break things, `join`."""

    def __init__(
        self, base_url: str, logins: Sequence[str], wishes: Sequence[Wish], *, at_once: int = 50
    ) -> None:
        super().__init__(name="load", daemon=True)
        self.url = f"{base_url}/api/v2/parcels"
        self.logins = [base64.b64encode(login.encode()).decode() for login in logins]
        self.wishes = wishes
        self.at_once = at_once
        self.told: list[Told] = []

    def run(self) -> None:
        asyncio.run(self._send_all())

    async def _send_all(self) -> None:
        waiting = iter(self.wishes)
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        # A connection each: a reset of one must not look like a fault of another.
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:

            async def client() -> None:
                for wish in waiting:
                    await self._send(session, wish)

            await asyncio.gather(*(client() for _ in range(min(self.at_once, len(self.wishes)))))

    async def _send(self, session: aiohttp.ClientSession, wish: Wish) -> Told:
        told = Told(wish.intent, wish.account, time.time(), wish.synchronous)
        self.told.append(told)
        headers = {"Authorization": f"Basic {self.logins[wish.account]}", **wish.headers}
        call = self._ask(session, wish, headers, told)
        try:
            if wish.hang_up is None:
                await call
            else:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(call, wish.hang_up)
                told.hung_up = told.answered_at is None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            told.error = f"{type(error).__name__}: {error}"[:200]
        return told

    async def _ask(
        self,
        session: aiohttp.ClientSession,
        wish: Wish,
        headers: Mapping[str, str],
        told: Told,
    ) -> None:
        async with session.post(self.url, json=wish.body(), headers=headers) as response:
            text = await response.text()
        told.status, told.answered_at = response.status, time.time()
        if told.acknowledged:
            answer = json.loads(text)
            # Empty from a front that could ask neither Redis nor the app: accepted, and no more.
            told.parcels = (answer.get("parcels") or [answer["parcel"]]) if answer else []
        else:
            told.error = text[:200]
