"""Two verbs that free a Django worker while a client waits: `hold` and `release`.

The names are looked up at first use: the hub imports this package too, and knows no Django.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offload.arrival import arrived_at
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
    "arrived_at",
    "forget",
    "hold",
    "holds_clients",
    "release",
    "release_many",
    "wait",
    "wait_async",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "offload.arrival" if name == "arrived_at" else "offload.verbs"
    return getattr(import_module(module), name)
