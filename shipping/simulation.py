"""The simulated carriers' control API, for commands. Only `make run` has them."""

import json
import os
from typing import Any

from deploy import loopback
from shipping.terminal import Trouble, manage

# Seconds: loopback answers in milliseconds.
TIME_OUT = 5.0


def ask(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """Ask the simulator; raise Trouble with what to do when it isn't there or refuses."""
    url = os.environ.get("SIMULATOR_URL", "")
    if not url:
        raise Trouble("No run was found here, so there are no simulated carriers.", "make run")
    try:
        status, answer = loopback.ask(url + path, body, method=method, seconds=TIME_OUT)
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise Trouble(f"The simulator at {url} doesn't answer: {reason}", "make run") from None
    if status >= 400:
        raise Trouble(_reason(answer), manage("outage --help"))
    return json.loads(answer or b"null")


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")[:200]
