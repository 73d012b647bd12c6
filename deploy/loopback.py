"""Plain HTTP to loopback, for what is not measured: readiness, the simulator's control API."""

import base64
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

# The machine's proxy doesn't know our loopback.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(
    url: str,
    body: object = None,
    *,
    method: str | None = None,
    login: str = "",
    more: Mapping[str, str] | None = None,
    seconds: float = 30,
) -> tuple[int, bytes]:
    """Return status and body; OSError where no answer comes. `more` are further headers."""
    headers = {**(more or {})}
    if body is not None:
        headers["Content-Type"] = "application/json"
    if login:
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 # our own
    try:
        with _DIRECT.open(request, timeout=seconds) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
    except http.client.HTTPException as error:  # the other side doesn't speak HTTP
        raise ConnectionError(repr(error)) from error


def ask_json(url: str, body: object = None, **options: Any) -> Any:
    """Return the parsed answer; RuntimeError where it isn't a success."""
    status, answer = ask(url, body, **options)
    if status >= 300:
        raise RuntimeError(f"{url} answered {status}: {answer[:200]!r}")
    return json.loads(answer) if answer else None


def events(url: str, *, seconds: float = 30) -> Iterator[Any]:
    """Yield what a stream of server-sent events tells; OSError when it ends or is silent."""
    with _DIRECT.open(url, timeout=seconds) as stream:
        for line in stream:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))
    raise ConnectionError(f"{url} has ended")
