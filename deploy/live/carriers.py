"""How carriers stand: the guards' state in Redis, and the simulator's own word."""

from typing import Any

import redis
from aiohttp import ClientError, ClientSession, ClientTimeout
from redis.backoff import NoBackoff
from redis.retry import Retry

from carriers.breaker import CircuitBreaker
from carriers.bulkhead import Bulkhead
from carriers.health import Health
from carriers.redis_guard import RedisGuard
from deploy.live.target import Target

# Seconds: loopback answers in one millisecond, and the next sample comes anyway.
TIME_OUT = 0.5


class Guards:
    """Reads breakers, bulkheads and recent latencies as the stack's processes share them."""

    def __init__(self, target: Target) -> None:
        client = redis.Redis.from_url(
            target.environment["REDIS_URL"],
            socket_timeout=TIME_OUT,
            socket_connect_timeout=TIME_OUT,
            retry=Retry(NoBackoff(), 0),
        )
        guard = RedisGuard(client, "live page")
        prefix = target.environment.get("CARRIER_GUARD_PREFIX", "carriers:")
        self._of = {
            code: (
                CircuitBreaker(guard, code, prefix=prefix),
                # The lease plays no part in reading.
                Bulkhead(guard, code, limit=target.bulkhead(code), lease=1, prefix=prefix),
                Health(guard, code, prefix=prefix),
            )
            for code in target.carriers
        }

    def read(self) -> dict[str, dict[str, Any]]:
        """Return, by carrier: breaker, bulkhead [taken, limit], p50 and p95 of recent calls."""
        return {code: self._one(code) for code in self._of}

    def _one(self, code: str) -> dict[str, Any]:
        breaker, bulkhead, health = self._of[code]
        recent = health.read()
        return {
            "breaker": breaker.mode(),
            "bulkhead": [bulkhead.in_flight(), bulkhead.limit],
            "p50": recent.p50,
            "p95": recent.p95,
            "error_share": recent.error_share,
        }


class Simulator:
    """The control API of a stack's simulated carriers."""

    def __init__(self, session: ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self._timeout = ClientTimeout(total=2.0)  # a click may wait that long

    async def read(self) -> dict[str, dict[str, Any]]:
        """Return, by carrier: name, calls in flight, calls so far, faults with their state."""
        carriers = (await self._ask("GET", "/carriers"))["carriers"]
        faults = (await self._ask("GET", "/faults"))["faults"]
        return {
            carrier["code"]: {
                "title": carrier["name"],
                "in_flight": carrier["in_flight"],
                "calls": carrier["calls"],
                "faults": [
                    {"kind": fault["kind"], "params": fault["params"]}
                    for fault in faults
                    if fault["carrier"] == carrier["code"] and fault["state"] == "active"
                ],
            }
            for carrier in carriers
        }

    async def begin(self, carrier: str, kind: str, parameters: dict[str, Any]) -> None:
        """Begin a fault at a carrier."""
        await self._ask("PUT", f"/carriers/{carrier}/faults/{kind}", parameters)

    async def end(self, carrier: str) -> None:
        """End all faults of a carrier."""
        await self._ask("DELETE", f"/carriers/{carrier}/faults")

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        async with self._session.request(
            method, self._url + path, json=body, timeout=self._timeout
        ) as answer:
            if answer.status >= 400:
                raise ClientError(f"the simulator answered {answer.status}: {await answer.text()}")
            return await answer.json() if answer.status == 200 else None
