"""Login tokens of carriers, kept in this process.

Why not in Redis: a token is a credential, a login costs one call per process and ten minutes, and
depending on Redis would add another failure.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Mapping

# Why 60 s: a token must outlive the call it is used in, whose total deadline is below that.
MARGIN = 60.0
# Why 10,000: one entry per account and about 200 bytes each; over it the cache starts again.
LARGEST_CACHE = 10_000


class TokenCache:
    """Tokens by credentials, thread-safe. Two threads may log in at once: both tokens work."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens: dict[bytes, tuple[str, float]] = {}

    def get(self, credentials: Mapping[str, str]) -> str | None:
        """Return a token that will last through a call."""
        with self._lock:
            token, until = self._tokens.get(_key(credentials), ("", 0.0))
        return token if token and self._clock() < until else None

    def put(self, credentials: Mapping[str, str], token: str, expires_in: float) -> None:
        """Keep a token for `expires_in` seconds, less the margin."""
        with self._lock:
            if len(self._tokens) >= LARGEST_CACHE:
                self._tokens.clear()
            self._tokens[_key(credentials)] = (token, self._clock() + expires_in - MARGIN)

    def drop(self, credentials: Mapping[str, str], token: str) -> None:
        """Forget a token that the carrier refuses, but not a newer one of another thread."""
        with self._lock:
            if self._tokens.get(_key(credentials), ("", 0.0))[0] == token:
                del self._tokens[_key(credentials)]


def _key(credentials: Mapping[str, str]) -> bytes:
    # Hashed, so that a memory dump of the cache shows no passwords beside the tokens.
    return hashlib.sha256(repr(sorted(credentials.items())).encode()).digest()
