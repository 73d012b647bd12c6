"""How carriers stand: the guards' state in Redis."""

from typing import Any

from carriers.guards import CarrierGuards
from carriers.redis_guard import RedisGuard
from deploy.live.target import Target
from deploy.plan import CARRIERS
from offload.redis_clients import sync_client

# Seconds: loopback answers in one millisecond, and the next sample comes anyway.
TIME_OUT = 0.5


class Guards:
    """Reads breakers, bulkheads and recent latencies as the stack's processes share them."""

    def __init__(self, target: Target) -> None:
        environment = target.environment
        url = environment.get("GUARDS_URL") or environment["REDIS_URL"]
        guard = RedisGuard(sync_client(url, time_out=TIME_OUT), "live page")
        prefix = target.environment.get("CARRIER_GUARD_PREFIX", "carriers:")
        self._of = {
            code: CarrierGuards(guard, code, limit=target.bulkhead(code), prefix=prefix)
            for code in map(str.lower, CARRIERS)
        }

    def read(self) -> dict[str, dict[str, Any]]:
        """Return, by carrier: breaker, bulkhead [taken, limit], p50 of recent calls."""
        return {
            code: {
                "breaker": guards.mode(),
                "bulkhead": [guards.in_flight(), guards.limit],
                "p50": guards.recent().p50,
            }
            for code, guards in self._of.items()
        }
