"""A WSGI application behind an ASGI server: one thread, and one switch there and back, per request.

    application = HoldMiddleware(InThreads(get_wsgi_application()), …)

Django's own ASGI handler runs synchronous middleware and views, too, but makes a new thread for
each request and changes between it and the event loop four times: 2.2 ms of a core for a request
that needs 1.1 ms in WSGI (measured, CPython 3.11). Where no view is a coroutine this saves them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from tempfile import SpooledTemporaryFile
from typing import Any

from offload.arrival import KEY

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Environ = dict[str, Any]

# Bytes of a request that are kept in memory: Django's own limit. The rest goes to a file.
SPOOL = 2_621_440
# Bytes of an answer of known length that cross to the event loop in one go.
WHOLE = 1_048_576


class ClientGone(Exception):
    """Nobody reads the stream any more"""


class InThreads:
    """An ASGI application that calls a WSGI one; `threads` at once."""

    def __init__(self, app: Callable[..., Iterable[bytes]], *, threads: int = 32) -> None:
        self._app = app
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="wsgi")

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"only HTTP is served here, not {scope['type']}")
        with SpooledTemporaryFile(max_size=SPOOL) as body:
            if not await _read(receive, body):
                return
            environ = make_environ(scope, body)
            loop = asyncio.get_running_loop()
            answer = _Answer(loop, receive, send)
            # Of its own: what a request leaves in context variables is not for the thread's next.
            context = copy_context()
            try:
                await loop.run_in_executor(self._pool, context.run, answer.fill, self._app, environ)
            except ClientGone:
                return
            finally:
                answer.end()
        await answer.flush()


async def _read(receive: Receive, body: SpooledTemporaryFile[bytes]) -> bool:
    """Read the whole body; False if the client has gone before its end."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return False
        body.write(message.get("body", b""))
        if not message.get("more_body", False):
            return True


def make_environ(scope: Any, body: Any) -> Environ:
    """Return the WSGI environment of a request whose body has been read."""
    length = body.tell()
    body.seek(0)
    host, port = scope.get("server") or ("localhost", 0)
    root = scope.get("root_path", "")
    environ: Environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": _as_wsgi(root),
        "PATH_INFO": _as_wsgi(scope["path"].removeprefix(root)),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": str(port or 0),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": body,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        KEY: scope.get(KEY),
    }
    if scope.get("client"):
        environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = scope["client"]
    for name, value in scope["headers"]:
        _add_header(environ, name.decode("latin-1"), value.decode("latin-1"))
    # Of what came in pieces, too: WSGI knows no end of a body but this.
    environ["CONTENT_LENGTH"] = str(length)
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    return environ


def _as_wsgi(text: str) -> str:
    return text.encode().decode("latin-1")


def _add_header(environ: Environ, name: str, value: str) -> None:
    if "_" in name:  # it would be taken for the name with a hyphen
        return
    key = name.upper().replace("-", "_")
    if key not in {"CONTENT_TYPE", "CONTENT_LENGTH"}:
        key = f"HTTP_{key}"
    if key in environ:
        value = f"{environ[key]}{'; ' if key == 'HTTP_COOKIE' else ','}{value}"
    environ[key] = value


class _Answer:
    """What the application answers, on its way from the thread to the event loop.

    An answer of known length is kept until it is whole, or long; all others flow piece by piece.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, receive: Receive, send: Send) -> None:
        self._loop = loop
        self._receive = receive
        self._send = send
        self._hang_up: asyncio.Future[Any] | None = None
        self._kept: list[Message] = []
        self._size = 0
        self._flows = False

    def fill(self, app: Callable[..., Iterable[bytes]], environ: Environ) -> None:
        """Call the application in this thread."""
        chunks = app(environ, self._start)
        try:
            for chunk in chunks:
                self._write(chunk)
        finally:
            if close := getattr(chunks, "close", None):
                close()
        if self._kept and "more_body" in self._kept[-1]:
            self._kept[-1]["more_body"] = False
        else:
            self._kept.append({"type": "http.response.body", "body": b""})

    async def flush(self) -> None:
        """Send what is kept, in the event loop."""
        kept, self._kept = self._kept, []
        for message in kept:
            await self._send(message)

    def _start(
        self, status: str, headers: list[tuple[str, str]], _error: object = None
    ) -> Callable[[bytes], None]:
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        self._flows = all(name != b"content-length" for name, _ in raw)
        self._kept = [
            {
                "type": "http.response.start",
                "status": int(status.split(maxsplit=1)[0]),
                "headers": raw,
            }
        ]
        return self._write

    def _write(self, chunk: bytes) -> None:
        self._kept.append({"type": "http.response.body", "body": chunk, "more_body": True})
        self._size += len(chunk)
        if self._flows or self._size > WHOLE:
            self._size = 0
            asyncio.run_coroutine_threadsafe(self._stream(), self._loop).result()

    async def _stream(self) -> None:
        await self.flush()
        # Servers accept data for a closed connection without an error, forever.
        if self._hang_up is None:
            self._hang_up = asyncio.ensure_future(self._receive())
        if self._hang_up.done():
            raise ClientGone

    def end(self) -> None:
        """Stop listening for the disconnect."""
        if self._hang_up is not None:
            self._hang_up.cancel()
