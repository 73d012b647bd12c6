"""A bound on bodies for Django's own ASGI handler, which writes any length of one to a file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Application = Callable[[Any, Any, Any], Awaitable[None]]

_LENGTH = b"content-length"
_END: Message = {"type": "http.request", "body": b"", "more_body": False}


def bounded(app: Application, most: int) -> Application:
    """Wrap the application: it gets no more than `most` bytes of a body, and always its length.

    Over that the length in Content-Length is what there was until then, which is too much for
    RequestLimitsMiddleware; the rest is thrown away. A body in pieces gets its length, too:
    without one Django and REST framework read it without a limit, or not at all.
    """

    async def answer(scope: Any, receive: Receive, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        headers = [(name, value) for name, value in scope["headers"] if name != _LENGTH]
        declared = int(dict(scope["headers"]).get(_LENGTH, b"0"))
        counted = _counted(receive, headers, declared if declared > most else 0, most)
        await app({**scope, "headers": headers}, counted, send)

    return answer


def _counted(receive: Receive, headers: list[tuple[bytes, bytes]], size: int, most: int) -> Receive:
    """Return what receives in the place of `receive`; Django reads the headers after the body."""
    ended = False

    async def next_message() -> Message:
        nonlocal ended, size
        while True:
            message = _END if size > most and not ended else await receive()
            if message["type"] != "http.request":
                return message
            if ended:
                continue
            size += len(message.get("body", b""))
            ended = size > most or not message.get("more_body", False)
            if ended:
                headers.append((_LENGTH, str(size).encode()))
            return message if size <= most else _END

    return next_message
