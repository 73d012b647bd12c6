"""Answers that break off: faults of the connection itself."""

import asyncio
from contextlib import suppress

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from carriers.simulator.server import connection_of, reset

# Where the true answer has no body, this many bytes are promised, so that there is one to break.
_PADDING = b" " * 64


class BrokenOff(Exception):
    """The call has no whole answer: outer faults have none to change, and it passes them."""

    def __init__(self, answer: Response) -> None:
        super().__init__()
        self.answer = answer


class Reset(Response):
    """Answers by a TCP reset."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Break the connection and wait until the server has seen it."""
        reset(scope)
        await _gone(receive)


class Hanging(Response):
    """Answers nothing for `seconds`, then resets; ends early when the client disconnects."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait."""
        with suppress(TimeoutError):
            await asyncio.wait_for(_gone(receive), self._seconds)
            return
        reset(scope)
        await _gone(receive)


class Truncated(Response):
    """Promises the whole body, sends the share `keep` of it, and disconnects."""

    def __init__(self, whole: Response, keep: float) -> None:
        super().__init__()
        self._whole = whole
        self._keep = keep

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the true status and headers, and part of the body."""
        body = await _start(self._whole, send)
        # At least one byte is missing, whatever the share rounds to.
        cut = min(int(len(body) * self._keep), len(body) - 1)
        await send({"type": "http.response.body", "body": body[:cut], "more_body": True})
        connection_of(scope).close()  # FIN, after what was written
        await _gone(receive)


class Trickled(Response):
    """Sends the true answer one byte per `interval` seconds."""

    def __init__(self, whole: Response, interval: float) -> None:
        super().__init__()
        self._whole = whole
        self._interval = interval

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the end, or until the client disconnects."""
        gone = asyncio.ensure_future(_gone(receive))
        try:
            body = await _start(self._whole, send)
            for place in range(len(body)):
                await asyncio.wait({gone}, timeout=self._interval)
                if gone.done():
                    return
                await send(_piece(body, place))
        finally:
            gone.cancel()


def _piece(body: bytes, place: int) -> Message:
    more = place + 1 < len(body)
    return {"type": "http.response.body", "body": body[place : place + 1], "more_body": more}


async def _start(whole: Response, send: Send) -> bytes:
    """Send status and headers of the true answer; return the body that they promise."""
    body = bytes(whole.body) or _PADDING
    headers = [pair for pair in whole.raw_headers if pair[0] != b"content-length"]
    headers.append((b"content-length", str(len(body)).encode()))
    # 204 can't have a body, so a broken one can't be told from a good one.
    status = 200 if whole.status_code == 204 else whole.status_code
    await send({"type": "http.response.start", "status": status, "headers": headers})
    return body


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
