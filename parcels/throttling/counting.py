"""Count in Redis, by one script. Without Redis every request passes, which is logged and
counted."""

import functools
from contextlib import suppress
from functools import partial
from pathlib import Path

import redis
from django.conf import settings

from carriers.redis_guard import Gone, RedisGuard
from offload.redis_clients import sync_client
from parcels import metrics
from parcels.throttling.limits import Limit

_SCRIPT = (Path(__file__).parent / "window.lua").read_text()
# Seconds. Redis answers in under a millisecond or is in trouble, and a limit isn't worth a wait.
_TIME_OUT = 0.25


class Windows:
    """The windows of all accounts in one Redis."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._guard = RedisGuard(client, "throttle", on_trouble=self._count)
        self._script = client.register_script(_SCRIPT)

    def wait(self, name: str, limits: tuple[Limit, ...], *, charge: int = 0) -> float:
        """Count a request; return 0, or the seconds until one may pass.

        A `charge` always counts: it is the rest of the cost of a request that has passed.
        """
        keys = _keys(name, limits)
        arguments = [number for limit in limits for number in (limit.requests, limit.window)]
        arguments.append(charge)
        try:
            return float(self._guard.ask(lambda: self._script(keys, arguments))) / 1000
        except Gone:
            return 0.0

    def give_back(self, name: str, limits: tuple[Limit, ...]) -> None:
        """Take a request out of the count that has passed a moment ago."""
        with suppress(Gone):
            for key in _keys(name, limits):
                self._guard.ask(partial(self._client.hincrby, key, "this", -1))

    @staticmethod
    def _count(purpose: str) -> None:
        metrics.THROTTLE_TROUBLE.labels(purpose).inc()


def _keys(name: str, limits: tuple[Limit, ...]) -> list[str]:
    # The braces keep an account's windows on one node of a cluster.
    return [f"throttle:{{{name}}}:{limit.window}" for limit in limits]


@functools.cache
def windows() -> Windows:
    """Return this process's windows."""
    return Windows(sync_client(settings.GUARDS_URL, time_out=_TIME_OUT))
