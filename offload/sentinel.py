"""The address of a Redis by Sentinel: whichever the Sentinels call the primary of that name.

redis+sentinel://user:password@host:26379,host:26379/name/0; user and password are the Redis'.
"""

from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

BY_SENTINEL = "redis+sentinel"
SENTINEL_PORT = 26379


class Watched(NamedTuple):
    """A primary that Sentinels (host, port) know by its name, and how to log in there."""

    sentinels: list[tuple[str, int]]
    name: str
    login: dict[str, Any]


def watched(url: str) -> Watched | None:
    """Read an address by Sentinel; None for another one, ValueError for one that lacks a part."""
    parts = urlsplit(url)
    rest = parts.path + parts.fragment + parts.query.partition("=")[0]  # a value may have an @
    if parts.netloc and "@" in rest:  # a password's first part would be the port
        raise ValueError("in a password, / is %2F, # is %23 and ? is %3F")
    if parts.scheme != BY_SENTINEL:
        return None
    name, _, database = parts.path.strip("/").partition("/")
    pairs = [each.partition(":") for each in parts.netloc.rpartition("@")[2].split(",")]
    if not name or not all(host for host, _, _ in pairs):
        raise ValueError(
            f"{parts.path or 'the address'}: not {BY_SENTINEL}://host:26379,host:26379/name/0"
        )
    login = {"username": parts.username, "password": parts.password}
    return Watched(
        [(host, int(port or SENTINEL_PORT)) for host, _, port in pairs],
        name,
        {key: unquote(value) for key, value in login.items() if value} | {"db": int(database or 0)},
    )
