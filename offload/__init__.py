"""Two functions that free a Django worker while a client waits:

`hold` and `release`. The names are imported at first use: the hub imports this package, too,
without Django.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offload.arrival import arrived_at
    from offload.awaited import Awaited
    from offload.resolving import get_asgi_application
    from offload.responses import add_message
    from offload.tasks import run, task
    from offload.verbs import (
        forget,
        hold,
        holds_clients,
        release,
        release_many,
        wait,
        wait_async,
    )

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
_ELSEWHERE = {
    "Awaited": "awaited",
    "add_message": "responses",
    "arrived_at": "arrival",
    "get_asgi_application": "resolving",
    "run": "tasks",
    "task": "tasks",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"offload.{_ELSEWHERE.get(name, 'verbs')}"), name)
    globals()[name] = found  # so that this is called once for each
    return found
