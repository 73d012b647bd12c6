"""Connections that ask for nothing, or whose answer is not read, end; those that wait don't."""

import asyncio
import contextlib
import http.client
import socket
import sys
import time
from typing import Any

import pytest

from offload import idle
from offload.intake import Intake
from offload.tests.processes import Process, free_port, until

DESCRIPTORS = 100
# Many times what the kernel keeps for a client that doesn't read.
LONG = 40_000_000
SERVED = """
import asyncio, os, resource
from offload import idle
from offload.intake import Intake
from offload.tests.test_idle import DESCRIPTORS, LONG

idle.LIMIT, idle.LOOK = float(os.environ["LIMIT"]), 0.1
resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
ready = asyncio.Event()

async def app(scope, receive, send):
    if scope["type"] != "http":
        raise ValueError(scope["type"])  # as Django
    await receive()
    pieces = LONG // 50_000 if scope["path"] == "/long" else 1
    if scope["path"] == "/held":
        await ready.wait()
    length = (b"content-length", str(50_000 * pieces).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    for more in reversed(range(pieces)):
        await send({"type": "http.response.body", "body": b"x" * 50_000, "more_body": bool(more)})
    if scope["path"] in {"/ready", "/long"}:
        ready.set()

application = Intake(app)
"""
GET = "GET {} HTTP/1.1\r\nHost: x\r\n"


@contextlib.contextmanager
def uvicorn(folder, limit, *options):
    (folder / "served.py").write_text(SERVED)
    port = free_port()
    words = ["-m", "uvicorn", "served:application", "--port", str(port), "--app-dir", str(folder)]
    words += ["--timeout-keep-alive", "75", "--log-level", "critical", *options]
    server = Process(sys.executable, *words, environment={"LIMIT": str(limit)})
    try:
        until(lambda: serves(port), what="uvicorn", seconds=60)
        yield port
    finally:
        server.end()


def serves(port, path="/", seconds=2.0):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        client.request("GET", path)
        return client.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        client.close()


def connect(stack, port, text):
    connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
    connection.sendall(text.encode())
    return connection


@pytest.mark.integration
@pytest.mark.parametrize("options", [("--http", "h11", "--loop", "asyncio"), ()])
def test_clients_that_ask_for_nothing_keep_no_others_out(tmp_path, options):
    """Each had its descriptor until it hung up."""
    with uvicorn(tmp_path, 1, *options) as port, contextlib.ExitStack() as stack:
        held = connect(stack, port, GET.format("/held") + "\r\n")
        kept = stack.enter_context(
            contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30))
        )
        kept.request("GET", "/")
        kept.getresponse().read()
        unfinished = [connect(stack, port, GET.format("/")) for _ in range(DESCRIPTORS // 2)]
        for _ in range(DESCRIPTORS // 2):
            connect(stack, port, "")

        def others_are_served():
            for each in unfinished:
                with contextlib.suppress(OSError):  # it has ended
                    each.sendall(b"X-A: a\r\n")
            return serves(port)

        until(others_are_served, what="an answer")
        kept.request("GET", "/ready")
        assert kept.getresponse().status == 200
        assert held.recv(12) == b"HTTP/1.1 200"


@pytest.mark.integration
def test_an_answer_that_is_not_read_ends(tmp_path):
    """The app waited in `send` until its client hung up: with HoldMiddleware in a slot."""
    with uvicorn(tmp_path, 2) as port, contextlib.ExitStack() as stack:
        connect(stack, port, GET.format("/long") + "\r\n")
        assert serves(port, "/held", seconds=15)


@pytest.mark.integration
def test_an_answer_that_is_read_slowly_does_not(tmp_path):
    with uvicorn(tmp_path, 3) as port, contextlib.ExitStack() as stack:
        slow = connect(stack, port, GET.format("/long") + "\r\n")
        size = 0
        while size < LONG:
            piece = slow.recv(200_000)
            assert piece, f"it ended after {size} bytes"
            size += len(piece)
            time.sleep(0.02)  # four seconds in all


def test_another_server_s_lifespan_is_passed_on():
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["type"])

    uncalled: Any = None
    asyncio.run(Intake(app)({"type": "lifespan"}, uncalled, uncalled))
    assert seen == ["lifespan"]


class Loop:
    """A clock that the test sets."""

    now = 0.0

    def time(self):
        return self.now

    def call_later(self, delay, call, *arguments):
        self.later = call, arguments


class Connection:
    """What is read of one of uvicorn's; `transport` is itself."""

    ended = False

    def be(self, cycle, timer, unread):
        self.transport = self
        self.cycle, self.timeout_keep_alive_task, self.unread = cycle, timer, unread

    def get_write_buffer_size(self):
        return self.unread

    def abort(self):
        self.ended = True


class Cycle:
    """One request and its answer."""

    def __init__(self, *, complete):
        self.response_complete = complete


ASKED, ANSWERED, TIMER = Cycle(complete=False), Cycle(complete=True), object()


@pytest.mark.parametrize(
    ("before", "after", "ends"),
    [
        ((None, None, 0), (None, None, 0), True),  # silent, or headers without end
        ((ANSWERED, None, 0), (ANSWERED, None, 0), True),  # the same in its second request
        ((None, None, 0), (ANSWERED, None, 0), False),  # that one has just begun
        ((None, None, 0), (ASKED, None, 0), False),
        ((ASKED, None, 0), (ASKED, None, 0), False),  # held, or its body is on the way
        ((ANSWERED, TIMER, 0), (ANSWERED, TIMER, 0), False),  # kept
        ((ASKED, None, 9), (ASKED, None, 9), True),  # nothing is read
        ((ANSWERED, TIMER, 9), (ANSWERED, TIMER, 9), True),
        ((ASKED, None, 9), (ASKED, None, 8), False),  # a byte was
    ],
)
def test_what_ends(monkeypatch, before, after, ends):
    loop, connection = Loop(), Connection()
    monkeypatch.setattr(idle.asyncio, "get_running_loop", lambda: loop)
    connection.be(*before)
    idle.look([connection, object()], {})  # a WebSocket is not looked at
    loop.now = idle.LIMIT / 2
    connection.be(*after)
    look, arguments = loop.later
    look(*arguments)
    assert not connection.ended
    loop.now = idle.LIMIT
    look, arguments = loop.later
    look(*arguments)
    assert connection.ended is ends
