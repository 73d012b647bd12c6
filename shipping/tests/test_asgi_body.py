"""Under Django's own ASGI handler a body is counted while it comes, and refused over the limit."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIHandler

from shipping.asgi_body import bounded

MOST = 1000


class Server:
    """What uvicorn is to the application; `stays`: the client waits for its answer."""

    def __init__(self, *pieces: bytes, stays: bool = False, length: str = "") -> None:
        self.stays = stays
        self.pieces = list(pieces)
        self.scope = {
            "type": "http", "method": "POST", "path": "/api/v2/parcels", "query_string": b"",
            "headers": [(b"content-length", length.encode())] if length else [],
        }  # fmt: skip
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        if not self.pieces:
            if self.stays:
                await asyncio.Event().wait()
            return {"type": "http.disconnect"}
        piece = self.pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(self.pieces)}

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)


async def read(server: Server) -> tuple[bytes, bytes | None]:
    """Return what Django would read, and the length that it would be told."""
    seen: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        seen.update(body=body, length=dict(scope["headers"]).get(b"content-length"))
        assert (await receive())["type"] == "http.disconnect"

    await bounded(app, MOST)(server.scope, server.receive, server.send)
    return seen["body"], seen["length"]


async def test_a_body_within_the_limit_passes_with_its_length() -> None:
    assert await read(Server(b"x" * 600, b"y" * 400)) == (b"x" * 600 + b"y" * 400, b"1000")
    assert await read(Server(b"")) == (b"", b"0")
    declared = Server(b"abc", length="3")
    assert await read(declared) == (b"abc", b"3")


async def test_over_the_limit_the_rest_is_thrown_away() -> None:
    assert await read(Server(*[b"x" * 600] * 50)) == (b"x" * 600, b"1200")


async def test_a_declared_length_is_enough() -> None:
    server = Server(*[b"x" * 600] * 50, length="30000")
    body, length = await read(server)
    assert (body, length) == (b"", b"30000")


@pytest.mark.parametrize("length", ["", "30000"])
async def test_the_answer_is_a_413_in_the_error_shape(settings: Any, length: str) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = MOST
    server = Server(*[b"x" * 600] * 50, stays=True, length=length)
    await bounded(ASGIHandler(), MOST)(server.scope, server.receive, server.send)
    assert server.sent[0]["status"] == 413
    assert json.loads(server.sent[1]["body"])["error"]["code"] == 413
