"""Two functions that free a Django worker while a client waits:

`hold` and `release`. The names are imported at first use: the hub imports this package, too,
without Django.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offload.awaited import Awaited
    from offload.inline import wait, wait_async
    from offload.middleware import arrived_at, hold, holds_clients
    from offload.resolving import get_asgi_application
    from offload.responses import add_message
    from offload.store import forget, release, release_many
    from offload.tasks import run, task

__all__ = [
    "Awaited",
    "add_message",
    "arrived_at",
    "forget",
    "get_asgi_application",
    "hold",
    "holds_clients",
    "release",
    "release_many",
    "run",
    "task",
    "wait",
    "wait_async",
]
_PLACES = {
    "Awaited": "awaited",
    "add_message": "responses",
    "arrived_at": "middleware",
    "forget": "store",
    "get_asgi_application": "resolving",
    "hold": "middleware",
    "holds_clients": "middleware",
    "release": "store",
    "release_many": "store",
    "run": "tasks",
    "task": "tasks",
    "wait": "inline",
    "wait_async": "inline",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"offload.{_PLACES[name]}"), name)
    globals()[name] = found  # so that this is called once for each
    return found
