"""A WSGI application behind an ASGI server: one thread, and one switch there and back, per request.

    application = HoldMiddleware(InThreads(get_wsgi_application()), …)

Django's own ASGI handler runs synchronous middleware and views, too, but makes a new thread for
each request and changes between it and the event loop four times: 2.2 ms of a core for a request
that needs 1.1 ms in WSGI (measured, CPython 3.11). Where no view is a coroutine this saves them.
"""

import asyncio
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from tempfile import SpooledTemporaryFile
from typing import Any

from offload.keys import CLIENT
from offload.protocol import ClientGone, Message, Receive, Send

Environ = dict[str, Any]

# Bytes of a request that are kept in memory: Django's own limit. The rest goes to a file.
SPOOL = 2_621_440
# Bytes of an answer of known length that cross to the event loop in one go.
WHOLE = 1_048_576


class InThreads:
    """An ASGI application that calls a WSGI one; `threads` at once."""

    def __init__(self, app: Callable[..., Iterable[bytes]], *, threads: int = 32) -> None:
        self._app = app
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="wsgi")

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"only HTTP is served here, not {scope['type']}")
        with SpooledTemporaryFile(max_size=SPOOL) as body:
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
                body.write(message.get("body", b""))
                more = message.get("more_body", False)
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
                if answer.hang_up is not None:
                    answer.hang_up.cancel()
        for message in answer.kept:
            await send(message)


def make_environ(scope: Any, body: Any) -> Environ:
    """Return the WSGI environment of a request whose body has been read."""
    length = body.tell()
    body.seek(0)
    host, port = scope.get("server") or ("localhost", 0)
    root = scope.get("root_path", "")
    environ: Environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": root.encode().decode("latin-1"),
        "PATH_INFO": scope["path"].removeprefix(root).encode().decode("latin-1"),
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
        CLIENT: scope.get(CLIENT),
    }
    if scope.get("client"):
        environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = map(str, scope["client"])
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        if "_" in name:  # it would be taken for the name with a hyphen
            continue
        key = name.upper().replace("-", "_")
        if key not in {"CONTENT_TYPE", "CONTENT_LENGTH"}:
            key = f"HTTP_{key}"
        if key in environ:
            value = f"{environ[key]}{'; ' if key == 'HTTP_COOKIE' else ','}{value}"
        environ[key] = value
    # Of what came in pieces, too: WSGI knows no end of a body but this.
    environ["CONTENT_LENGTH"] = str(length)
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    return environ


@dataclass
class _Answer:
    """What the application answers, on its way from the thread to the event loop.

    An answer of known length is kept until it is whole, or long; all others flow piece by piece.
    """

    loop: asyncio.AbstractEventLoop
    receive: Receive
    send: Send
    hang_up: asyncio.Future[Any] | None = None
    kept: list[Message] = field(default_factory=list)
    size: int = 0
    flows: bool = False

    def fill(self, app: Callable[..., Iterable[bytes]], environ: Environ) -> None:
        """Call the application in this thread."""
        # A pool that could not start a thread keeps the call; its client has an error already.
        if environ["wsgi.input"].closed:
            return
        chunks = app(environ, self._start)
        try:
            for chunk in chunks:
                self._write(chunk)
        finally:
            if close := getattr(chunks, "close", None):
                close()
        if self.kept and "more_body" in self.kept[-1]:
            self.kept[-1]["more_body"] = False
        else:
            self.kept.append({"type": "http.response.body", "body": b""})

    def _start(
        self, status: str, headers: list[tuple[str, str]], _error: object = None
    ) -> Callable[[bytes], None]:
        # Django begins each cookie with a blank, which h11 refuses.
        raw = [(name.lower().encode(), value.encode("latin-1").strip()) for name, value in headers]
        self.flows = all(name != b"content-length" for name, _ in raw)
        self.kept = [{"type": "http.response.start", "status": int(status[:3]), "headers": raw}]
        return self._write

    def _write(self, chunk: bytes) -> None:
        self.kept.append({"type": "http.response.body", "body": chunk, "more_body": True})
        self.size += len(chunk)
        if self.flows or self.size > WHOLE:
            self.size = 0
            asyncio.run_coroutine_threadsafe(self._stream(), self.loop).result()

    async def _stream(self) -> None:
        kept, self.kept = self.kept, []
        for message in kept:
            await self.send(message)
        # Servers accept data for a closed connection without an error, forever.
        if self.hang_up is None:
            self.hang_up = asyncio.ensure_future(self.receive())
        if self.hang_up.done():
            raise ClientGone
