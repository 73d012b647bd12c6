"""What a process says with the answers that it gives after the signal to end."""

import asyncio
import signal
from types import SimpleNamespace

import pytest

from offload.asgi import HoldMiddleware
from offload.hub_app import Hub
from offload.lifespan import ARRIVING_SECONDS
from offload.waiting import Waiters


async def answered(scope, receive, send):
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


@pytest.fixture
def server_stands_by():
    """The server's own handler, which ours calls afterwards; here it does nothing."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    yield
    signal.signal(signal.SIGTERM, before)


async def headers_of(hold, version="1.1"):
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "http_version": version, "path": "/", "headers": []}
    await hold(scope, receive, send)
    return dict(sent[0]["headers"])


async def test_an_answer_after_the_signal_says_that_its_connection_ends(server_stands_by):
    """At once: the server itself says so only a tenth of a second later."""
    hold = HoldMiddleware(answered, redis_url="redis://127.0.0.1:9/0")
    hold._lifespan.watch_signals()
    try:
        assert await headers_of(hold) == {}
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(0)
        assert await headers_of(hold) == {b"connection": b"close"}
        assert await headers_of(hold, "2") == {}  # HTTP/2 knows no such header
    finally:
        hold._lifespan.restore_signals()


async def test_the_server_has_its_signals_again_after_the_shutdown(server_stands_by):
    """A second server in the same process would otherwise end with the first one's handler."""
    before = signal.getsignal(signal.SIGTERM)
    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    during = []

    async def receive():
        return next(messages)

    async def send(message):
        during.append((message["type"], signal.getsignal(signal.SIGTERM) is before))

    async def refuses(scope, receive, send):
        raise ValueError(scope["type"])

    hold = HoldMiddleware(refuses, redis_url="redis://127.0.0.1:9/0")
    await hold({"type": "lifespan"}, receive, send)
    assert during == [
        ("lifespan.startup.complete", False),
        ("lifespan.shutdown.complete", True),
    ]


async def test_a_hub_ends_idle_connections_at_once():
    """Their front has another one; a server in front of clients waits for requests on their way."""
    done: asyncio.Queue[str] = asyncio.Queue()
    closed = SimpleNamespace(close=lambda: done.put_nowait("socket closed"))

    class Server:
        servers = (closed,)

        def handle_exit(self, number, frame):
            done.put_nowait("connections ended")

    before = signal.signal(signal.SIGTERM, Server().handle_exit)
    lifespan = Hub(Waiters("redis://127.0.0.1:9/0"), secret="s" * 40)._lifespan
    lifespan.watch_signals()
    try:
        signal.raise_signal(signal.SIGTERM)
        asyncio.get_running_loop().call_later(ARRIVING_SECONDS / 2, done.put_nowait, "later")
        order = [await done.get() for _ in range(3)]
    finally:
        lifespan.restore_signals()
        signal.signal(signal.SIGTERM, before)
    assert order == ["socket closed", "connections ended", "later"]
