"""When a request arrived: its client waits from then on, not from the start of the view."""

from __future__ import annotations

import time
from typing import Any

# Where HoldMiddleware leaves the arrival in the ASGI scope, and InThreads in the WSGI environment;
# clients can't write there.
KEY = "offload.arrived_at"
_ATTRIBUTE = "offload_arrived_at"


def note_arrival(request: Any) -> None:
    """Write the arrival on a Django request: HoldMiddleware's, where there is one, else now."""
    setattr(request, _ATTRIBUTE, _noted_outside(request) or time.monotonic())


def came_through_hold_middleware(request: Any) -> bool:
    """Say whether HoldMiddleware handles this request."""
    return _noted_outside(request) is not None


def _noted_outside(request: Any) -> Any:
    return (getattr(request, "scope", None) or request.META).get(KEY)


def arrived_at(request: Any) -> float:
    """Return the `time.monotonic()` at which the whole request was there.

    Takes Django's request or one that wraps it. Without OffloadMiddleware it is now.
    """
    noted = getattr(request, _ATTRIBUTE, None)
    return time.monotonic() if noted is None else float(noted)
