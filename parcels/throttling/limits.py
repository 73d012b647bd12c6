"""Limits as text: "1000/min", several as "100/min,15/s", "none" for no limit."""

import re
from dataclasses import dataclass
from functools import lru_cache

NONE = "none"
_WINDOWS = {"s": 1, "min": 60, "hour": 3600}
_LIMIT = re.compile(r"^([1-9]\d{0,8})/(s|min|hour)$")


@dataclass(frozen=True, slots=True)
class Limit:
    """So many requests in a window of so many seconds."""

    requests: int
    window: int


@lru_cache(maxsize=256)
def parse_limits(text: str) -> tuple[Limit, ...]:
    """Read limits, all of which hold; none for "none".

    Raises:
        ValueError: it is neither.
    """
    if text.strip() == NONE:
        return ()
    matches = [_LIMIT.match(word.strip()) for word in text.split(",")]
    if None in matches:
        raise ValueError(f'{text!r} is no limit: "1000/min", "100/min,15/s" or "none" is')
    return tuple(Limit(int(match[1]), _WINDOWS[match[2]]) for match in matches if match)
