"""The ASGI entry point refuses a body that is too large before Django, in the error shape."""

import json
from typing import Any

import pytest

SCOPE = {
    "type": "http",
    "http_version": "1.1",
    "method": "POST",
    "scheme": "http",
    "path": "/api/v2/parcels",
    "raw_path": b"/api/v2/parcels",
    "query_string": b"",
    "root_path": "",
    "server": ("127.0.0.1", 80),
    "client": ("192.0.2.1", 1),
    "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
}


@pytest.mark.parametrize("backend", ["asgi", "async", "inline"])
async def test_a_body_of_unknown_length_ends_at_two_megabytes(settings: Any, backend: str) -> None:
    settings.OFFLOAD = {**settings.OFFLOAD, "BACKEND": backend, "SECRET": "s" * 32}
    from shipping.asgi import _application

    sent: list[dict[str, Any]] = []
    read: list[int] = []

    async def receive() -> dict[str, Any]:
        read.append(100_000)
        return {"type": "http.request", "body": b" " * 100_000, "more_body": len(read) < 100}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await _application()(SCOPE, receive, send)
    start, body = sent
    assert start["status"] == 413
    assert json.loads(body["body"])["error"] == {
        "code": 413,
        "request": "api/v2/parcels",
        "message": "The body is too large.",
    }
    assert sum(read) == 2_100_000
