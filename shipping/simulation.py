"""The simulated carriers' control API, for commands. Only `make run` has them."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from typing import Any

from shipping.terminal import Trouble, manage

# Seconds: loopback answers in milliseconds.
TIME_OUT = 5.0
# A proxy of the machine has no business with loopback.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """Ask the simulator; raise Trouble with what to do when it isn't there or refuses."""
    url = os.environ.get("SIMULATOR_URL", "")
    if not url:
        raise Trouble("No run was found here, so there are no simulated carriers.", "make run")
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, method=method)  # noqa: S310 # our own URL
    try:
        with _DIRECT.open(request, timeout=TIME_OUT) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            raise Trouble(_reason(error.read()), manage("outage --help")) from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise Trouble(f"The simulator at {url} doesn't answer: {reason}", "make run") from None


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")[:200]
