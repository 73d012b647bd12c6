"""What is refused before the app is asked: too large, too slow, too many."""

import asyncio
import contextlib
import http.client
import json
import select
import socket
import sys
import time

import pytest

from offload.asgi import BUFFER, HoldMiddleware
from offload.intake import LARGE, Intake, _address, _Body
from offload.keys import CLIENT
from offload.protocol import Hold
from offload.tests.processes import ROOT, Process, free_port, until
from offload.threads import InThreads

SCOPE = {
    "type": "http",
    "http_version": "1.1",
    "method": "POST",
    "path": "/api/x",
    "query_string": b"",
    "client": ("192.0.2.1", 1),
    "headers": [],
}


def chunks(*sizes, every=0.0):
    """Return a `receive` that gives bodies of these sizes, and then hangs."""
    left = [
        {"type": "http.request", "body": b"x" * size, "more_body": number < len(sizes) - 1}
        for number, size in enumerate(sizes)
    ]

    async def receive():
        if not left:
            return await asyncio.Future()
        await asyncio.sleep(every)
        return left.pop(0)

    return receive


class App:
    """Reads its body whole, and then waits until it may answer."""

    def __init__(self):
        self.seen = []
        self.lengths = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body += message["body"]
            more = message["more_body"]
        self.seen.append(len(body))
        self.lengths.append(dict(scope["headers"]).get(b"content-length"))
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"read"})


async def ask(intake, receive, **scope):
    """Return (status, headers, body) of one request."""
    sent = []

    async def send(message):
        sent.append(message)

    await intake({**SCOPE, **scope}, receive, send)
    start, body = sent
    return start["status"], dict(start["headers"]), body["body"]


async def begun(intake, receive, **scope):
    """Start a request, and let it come as far as it can."""
    task = asyncio.create_task(ask(intake, receive, **scope))
    for _ in range(20):
        await asyncio.sleep(0)
    return task


def length(size):
    return [(b"content-length", str(size).encode())]


async def test_what_is_said_to_be_too_large_is_not_read():
    app = App()
    intake = Intake(app, max_body=10)
    status, _, body = await ask(intake, None, headers=length(11))  # nobody calls it
    assert (status, json.loads(body)) == (413, {"error": "The body is too large."})
    assert (await ask(intake, chunks(10), headers=length(10)))[0] == 200
    assert app.seen == [10]


async def test_a_client_that_waits_has_no_second_table_of_its_headers():
    """It had 640 bytes for fifteen of them, which a held client kept to its end."""
    app = App()
    app.may_answer.clear()
    value = bytes([120] * 9)
    headers = [(b"x-said", value)]
    before = sys.getrefcount(value)
    task = await begun(Intake(app), chunks(10), headers=headers)
    assert app.seen == [10]
    assert sys.getrefcount(value) == before
    app.may_answer.set()
    await task


async def test_a_type_without_an_end_is_not_read():
    """Django takes the square of its length for that: for 64 KB, two seconds of a processor."""
    app = App()
    for size, status in ((255, 200), (256, 400)):
        headers = [(b"content-type", b"a"), (b"content-type", b"a" * (size - 1)), *length(1)]
        assert (await ask(Intake(app), chunks(1), headers=headers))[0] == status
    assert app.seen == [1]


async def test_what_grows_too_large_is_left():
    app = App()
    assert (await ask(Intake(app, max_body=10), chunks(5, 5, 1)))[0] == 413
    assert (await ask(Intake(app, max_body=11), chunks(5, 5, 1)))[0] == 200
    assert app.seen == [11]


async def test_a_body_in_chunks_gets_its_length():
    """Without one REST framework takes it for empty."""
    app = App()
    await ask(Intake(app), chunks(5, 5))
    await ask(Intake(app), chunks(10), headers=length(10))
    assert app.lengths == [b"10", b"10"]


async def test_a_large_body_in_chunks_gets_its_length_behind_hold_middleware():
    """One that is passed on before it is complete: Django reads no form without a length."""
    app = App()
    hold = HoldMiddleware(app, redis_url="redis://127.0.0.1:9/0")
    intake = Intake(hold, max_body=2 * BUFFER)
    await ask(intake, chunks(BUFFER // 2, BUFFER, 10))
    assert app.lengths == [str(BUFFER // 2 + BUFFER + 10).encode()]


async def test_a_body_has_one_deadline_for_all_its_pieces():
    app = App()
    intake = Intake(app, deadline=0.2)
    status, headers, _ = await ask(intake, chunks(*[1] * 100, every=0.02))
    assert (status, headers[b"connection"], app.seen) == (408, b"close", [])
    assert (await ask(intake, chunks(*[1] * 100)))[0] == 200


async def test_a_client_that_waits_for_its_answer_has_no_deadline():
    async def held(scope, receive, send):
        await receive()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receive(), 0.1)  # the hang-up that never comes
        await send({"type": "http.response.start", "status": 202, "headers": []})
        await send({"type": "http.response.body"} | {"body": b""})

    assert (await ask(Intake(held, deadline=0.02), chunks(1)))[0] == 202


async def test_large_bodies_wait_for_a_place_and_small_ones_do_not():
    intake = Intake(App(), places=1)
    slow = await begun(intake, chunks(LARGE + 1, 1, every=0))
    assert (await slow)[0] == 200  # its place is free again

    stuck = asyncio.Event()

    async def receive():
        await stuck.wait() if first else first.append(1)
        return {"type": "http.request", "body": b"x" * (LARGE + 1), "more_body": not stuck.is_set()}

    first: list[int] = []
    slow = await begun(intake, receive)
    second = await begun(intake, chunks(LARGE + 1))
    assert (await ask(intake, chunks(LARGE)))[0] == 200
    assert not second.done()
    stuck.set()
    assert (await slow)[0] == (await second)[0] == 200


def upload(read):
    """Return a `receive` of a large body in two pieces, that notes when the second is read."""
    receive = chunks(LARGE + 1, 1)

    async def noting():
        message = await receive()
        if not message["more_body"]:
            read.append(message)
        return message

    return noting


async def test_a_body_that_waits_for_a_slot_keeps_its_place():
    app = App()
    read: list[dict[str, object]] = []
    app.may_answer.clear()
    url = "redis://127.0.0.1:9/0"
    hold = HoldMiddleware(app, redis_url=url, max_concurrency=1)
    intake = Intake(hold, places=2)
    tasks = [await begun(intake, upload(read)) for _ in range(6)]
    assert (len(app.seen), len(read)) == (1, 1 + 2)  # one in the slot, one at each place
    app.may_answer.set()
    assert {(await task)[0] for task in tasks} == {200}
    assert len(read) == 6


async def test_a_body_gives_its_place_back_where_no_slot_is_waited_for():
    """Else 32 clients whose label takes long would keep all others' bodies out."""
    app = App()
    read: list[dict[str, object]] = []
    app.may_answer.clear()
    intake = Intake(app, places=2)
    tasks = [await begun(intake, upload(read)) for _ in range(4)]
    assert len(read) == 4
    app.may_answer.set()
    assert {(await task)[0] for task in tasks} == {200}


async def test_a_body_over_the_buffer_needs_no_place_in_its_slot():
    """Those in the slots would wait for places, and those at the places for slots."""
    app = App()
    url = "redis://127.0.0.1:9/0"
    hold = HoldMiddleware(app, redis_url=url, max_concurrency=1)
    intake = Intake(hold, max_body=4_000_000, places=1, deadline=1)
    tasks = [await begun(intake, chunks(2_700_000, 1, 1, every=0.01)) for _ in range(3)]
    assert {(await task)[0] for task in tasks} == {200}


@pytest.mark.parametrize("last", ["error", "hang-up"])
async def test_a_place_is_given_back_however_its_request_ends(last):
    async def app(scope, receive, send):
        await receive()
        raise ZeroDivisionError

    async def hang_up():
        return pieces.pop(0)

    pieces = [
        {"type": "http.request", "body": b"x" * (LARGE + 1), "more_body": True},
        {"type": "http.disconnect"},
    ]
    hold = HoldMiddleware(App(), redis_url="redis://127.0.0.1:9/0")
    intake = Intake(app if last == "error" else hold, places=1)
    with pytest.raises(ZeroDivisionError if last == "error" else ValueError):
        await ask(intake, hang_up)
    intake._app = App()
    assert (await ask(intake, chunks(LARGE + 1)))[0] == 200


@pytest.mark.integration
async def test_who_sends_too_slowly_while_it_is_held_is_told(redis_server):
    """A view may ask for a hold without the rest of a body that came with its slot."""

    async def app(scope, receive, send):
        scope[CLIENT].hold = Hold("f" * 32, "", time.time() + 60)

    async def receive():
        return pieces.pop() if pieces else await asyncio.Future()

    pieces = [{"type": "http.request", "body": b"x" * 2_700_000, "more_body": True}]
    hold = HoldMiddleware(app, redis_url=redis_server.url)
    assert (await ask(Intake(hold, max_body=4_000_000, deadline=0.1), receive))[0] == 408
    await hold._waiters.stop()


async def test_who_waits_for_a_place_in_vain_is_told():
    intake = Intake(App(), places=0, deadline=0.05)
    assert (await ask(intake, chunks(LARGE + 1)))[0] == 408


async def test_an_address_has_so_many_requests_under_way():
    app = App()
    intake = Intake(app, connections=2)
    app.may_answer.clear()
    tasks = [await begun(intake, chunks(1)) for _ in range(2)]
    status, headers, _ = await ask(intake, chunks(1))
    assert (status, headers[b"retry-after"]) == (429, b"1")
    others = [("192.0.2.2", 1), ("2001:db8:1:2:3:4:5:6", 1), None, None, None]
    tasks += [await begun(intake, chunks(1), client=client) for client in others]
    neighbour = ("2001:db8:1:2:f:f:f:f", 1)
    tasks.append(await begun(intake, chunks(1), client=neighbour))
    assert (await ask(intake, chunks(1), client=neighbour))[0] == 429
    app.may_answer.set()
    assert {(await task)[0] for task in tasks} == {200}
    assert (await ask(intake, chunks(1)))[0] == 200
    assert not intake._under_way


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2001:db8::1:2:3:4", "2001:db8:0:0:5::6"),
        ("2001:db8:1::5", "2001:db8:1:0:1::5"),
        ("fe80::1%eth0", "fe80::2%eth0"),
    ],
)
def test_a_short_form_of_an_address_is_in_the_same_half(one, other):
    assert _address({"client": (one, 1)}) == _address({"client": (other, 1)})
    assert _address({"client": ("2001:db9::1", 1)}) != _address({"client": (one, 1)})


def test_other_addresses_are_whole():
    for host in ("192.0.2.7", "::ffff:192.0.2.7", "testclient", "unix:", "192.0.2.7:80"):
        assert _address({"client": (host, 1)}) == host


async def test_without_a_number_there_is_no_limit():
    app = App()
    intake = Intake(app)
    app.may_answer.clear()
    tasks = [await begun(intake, chunks(1)) for _ in range(300)]
    app.may_answer.set()
    assert {(await task)[0] for task in tasks} == {200}


async def test_a_middleware_that_holds_reads_no_more_either():
    seen = []

    def app(environ, start_response):
        seen.append(environ["CONTENT_LENGTH"])
        start_response("204 No Content", [("Content-Length", "0")])
        return [b""]

    hold = HoldMiddleware(InThreads(app), redis_url="redis://127.0.0.1:9/0")
    sizes = [1_000_000] * 3
    assert (await ask(Intake(hold), chunks(*sizes)))[0] == 413
    assert (await ask(hold, chunks(*sizes)))[0] == 204  # the control: alone it takes all there is
    assert seen == ["3000000"]


SERVED = """
from offload.intake import Intake
from offload.tests.test_intake import App
application = Intake(App(), max_body=100_000, deadline=1, connections=1)
"""


@pytest.mark.integration
def test_clients_of_uvicorn_get_the_answer(tmp_path):
    (tmp_path / "served.py").write_text(SERVED)
    port = free_port()
    words = ["-m", "uvicorn", "served:application", "--port", str(port), "--log-level", "warning"]
    server = Process(sys.executable, *words, "--app-dir", str(tmp_path), directory=ROOT)
    try:
        until(lambda: statuses(port, b"x") == [200], what="uvicorn", seconds=60)
        # Many times the socket's buffers, and the connection is good for another request.
        assert statuses(port, iter([b"x" * 50_000] * 200), b"x") == [413, 200]
        assert statuses(port, b"x" * 10_000_000, b"x") == [413, 200]
        slow = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        slow.putrequest("POST", "/")
        slow.putheader("Content-Length", "10")
        slow.endheaders(b"x")
        until(lambda: statuses(port, b"x") == [429], what="the slow one is counted")
        assert slow.getresponse().status == 408
    finally:
        server.end()


def refused(port, start, piece, limit):
    """Send pieces until the server closes; return the first line of its answer, None for none.

    Slowly over the limit: what the server has not read when it closes makes the close a reset,
    which overtakes the answer.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(start)
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 1_000_000:
                client.sendall(piece)
                sent += len(piece)
                if select.select([client], [], [], 0.001 if sent <= limit else 0.5)[0]:
                    return client.recv(1_000).split(b"\r\n")[0]
        return None


GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
TWO_LENGTHS = (
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"0\r\n\r\n"
)
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"


@pytest.mark.integration
def test_uvicorn_takes_no_endless_headers(tmp_path):
    """With httptools four clients could stop the server: it copies what it has for each piece."""
    (tmp_path / "served.py").write_text(SERVED.replace("deadline=1", "deadline=60"))
    port = free_port()
    words = ["-m", "uvicorn", "served:application", "--port", str(port), "--log-level", "critical"]
    words += ["--http", "h11", "--h11-max-incomplete-event-size", "65536"]
    server = Process(sys.executable, *words, "--app-dir", str(tmp_path), directory=ROOT)
    try:
        until(lambda: statuses(port, b"x") == [200], what="uvicorn", seconds=60)
        too_much = b"HTTP/1.1 400 Bad Request"
        assert refused(port, GET + b"X-A: ", b"a" * 9_000, 65_536) == too_much
        assert refused(port, GET, b"X-A: a\r\n" * 1_000, 65_536) == too_much
        assert refused(port, b"GET /", b"a" * 9_000, 65_536) == too_much
        assert refused(port, CHUNKED, b"X-A: a\r\n" * 1_000, 65_536) == too_much
        # Each request has the whole limit, and a body is none of it.
        headers = {f"X-{number}": "a" * 20_000 for number in range(3)}
        for body in (b"", b"x" * 90_000):
            assert statuses(port, *[body] * 3, headers=headers) == [200] * 3
        assert statuses(port, iter([b"x"] * 12_000), b"x") == [200, 200]
        # By one of two lengths a proxy may have taken the second request for a part of the first.
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.sendall(TWO_LENGTHS + GET + b"\r\n")
            answers = b"".join(iter(lambda: client.recv(65_536), b""))
        assert (answers[:12], answers.count(b"HTTP/1.1 ")) == (b"HTTP/1.1 400", 1)
    finally:
        server.end()


def statuses(port, *bodies, headers=None):
    """Return the statuses of requests on one connection; none where it can't be made."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    found = []
    try:
        for body in bodies:
            connection.request("POST", "/", body, headers or {})
            with connection.getresponse() as answer:
                answer.read()
                found.append(answer.status)
    except ConnectionRefusedError:
        pass
    finally:
        connection.close()
    return found


async def test_a_place_is_given_back_once():
    places = asyncio.Semaphore(0)
    body = _Body(chunks(1), {"headers": []}, 1, 0.0, places, has_place=True)
    body.leave()
    body.leave()
    await places.acquire()
    assert places.locked()
