"""Calls to a Redis that may be down, with a limit on what its absence costs.

Errors are logged and answered by the caller's fallback, never raised. While it is known to be down,
only one caller per second asks it: a Redis that swallows packets would otherwise add its socket
time-out to each call. The client has short time-outs and no retries, as one of
`offload.redis_clients.sync_client`.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import redis

logger = logging.getLogger(__name__)

# Why 1 s: a black-holed Redis then costs one caller one time-out a second, and its return is
# noticed within a second.
COOL_DOWN = 1.0


class Gone(Exception):
    """Redis is not available: use the fallback.

    `asked`: it was asked and may still do what the question said.
    """

    asked = False


class RedisGuard:
    """Asks Redis, or says at once that it is gone. One per process and purpose; thread-safe.

    `on_trouble` is called with the purpose for each question that failed.
    """

    def __init__(
        self,
        client: redis.Redis,
        purpose: str,
        *,
        on_trouble: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self.purpose = purpose
        self._on_trouble = on_trouble
        self._clock = clock
        self._lock = threading.Lock()
        self._gone_until: float | None = None

    @property
    def gone(self) -> bool:
        """Whether the last question got no answer."""
        return self._gone_until is not None

    def ask(self, question: Callable[[], Any]) -> Any:
        """Put a question to Redis; raise Gone where there is no answer."""
        if self._gone_until is not None:
            with self._lock:
                now = self._clock()
                if self._gone_until is not None and now < self._gone_until:
                    raise Gone
                # This caller tries; the others get "gone" meanwhile.
                self._gone_until = now + COOL_DOWN
        try:
            answer = question()
        except (redis.RedisError, OSError) as error:
            self._note(error)
            gone = Gone()
            gone.asked = True
            raise gone from error
        self._gone_until = None
        return answer

    def _note(self, error: Exception) -> None:
        with self._lock:
            self._gone_until = self._clock() + COOL_DOWN
        logger.warning("redis is gone for the %s: %s", self.purpose, type(error).__name__)
        if self._on_trouble is not None:
            self._on_trouble(self.purpose)
