"""The asyncio transport against the same misbehaving sockets."""

import asyncio
import os
import socket
import time

import pytest
import uvloop

from carriers import transport_async
from carriers.call import LEAST_SHARE, Call
from carriers.outcomes import Answered, NotSent, Unknown
from carriers.tests import certificates, servers
from carriers.tests.transport_cases import (
    CONNECT,
    DEADLINE,
    MISBEHAVIOURS,
    asking,
    buying,
    closed_port,
    descriptors_left,
    fits,
    is_not_sent,
    steps,
)
from carriers.transport import default_tls
from carriers.transport_async import perform

pytestmark = pytest.mark.integration  # real sockets on loopback


async def talk(url, *requests, **options):
    deadline = options.pop("deadline", DEADLINE)
    outcome = await perform(steps(*requests), url, deadline, CONNECT, **options)
    await asyncio.sleep(0)  # an aborted connection closes in the loop's next step
    return outcome


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize(("handler", "allowed", "remark"), MISBEHAVIOURS)
def test_a_purchase_is_judged_by_what_came_back(handler, allowed, remark, loop):
    with servers.serving(handler) as served, asyncio.Runner(loop_factory=loop) as runner:
        outcome = runner.run(talk(served.url, buying()))
    assert fits(outcome, allowed), remark
    assert len(served.requests) <= 1, "nothing is ever sent twice"


async def test_a_failure_after_the_purchase_is_unknown():
    answers = servers.answering(servers.http(200), b"HTTP/1.1 nonsense\r\n\r\n")
    with servers.serving(answers) as served:
        assert isinstance(await talk(served.url, buying(), asking()), Unknown)


async def test_what_never_connected_is_not_sent(tmp_path):
    refused = await talk(f"http://127.0.0.1:{closed_port()}", buying())
    assert is_not_sent(refused, "unreachable")
    server, client = certificates.contexts(tmp_path)
    with servers.serving(servers.answering(servers.http(200, b"{}")), server) as served:
        assert await talk(served.url, buying(), tls=client) == Answered()
        assert is_not_sent(await talk(served.url, buying()), "tls"), "an untrusted certificate"
        assert len(served.requests) == 1
    with servers.serving(servers.hang_in_handshake) as served:
        outcome = await talk(served.url.replace("http:", "https:"), buying())
        assert isinstance(outcome, NotSent), "a handshake that never ends"


@pytest.mark.parametrize("host", ["http://127.0.0.1", "http://localhost", "https://localhost"])
async def test_a_process_without_a_descriptor_does_not_blame_the_carrier(host):
    default_tls.cache_clear()  # it reads a file
    with servers.silent() as (_, port), descriptors_left(0):
        outcome = await talk(f"{host}:{port}", buying())
    assert is_not_sent(outcome, "no_descriptors")


async def test_a_carriers_next_address_is_tried(monkeypatch):
    loop = asyncio.get_running_loop()
    answering = servers.serving(servers.answering(servers.http(200)))
    with servers.silent() as silent, answering as served:
        stream = socket.AF_INET, socket.SOCK_STREAM, 6, ""
        found = [(*stream, silent), (*stream, ("127.0.0.1", served.port))]
        asked = []

        async def getaddrinfo(host, port, **options):
            asked.append((host, port))
            return found if host == "carrier.example" else [(*stream, (host, port))]

        monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
        assert await talk("http://carrier.example:81", buying()) == Answered()
        assert asked[0] == ("carrier.example", 81)


async def test_each_of_many_addresses_has_half_a_second(monkeypatch):
    """A share of the feed's second, by eight, is less than a far carrier's round trip."""
    loop = asyncio.get_running_loop()
    real, given = asyncio.timeout, []

    def timeout(seconds):
        given.append(seconds)
        return real(seconds)

    async def getaddrinfo(*_, **__):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("h", 1))] * 8

    async def connect(*_, **__):
        if len(given) < 2:
            raise TimeoutError
        return "the second's"

    monkeypatch.setattr(asyncio, "timeout", timeout)
    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(loop, "create_connection", connect)
    call = Call("https://feed.example", time.monotonic() + 5.0, 1.0)
    assert await transport_async._connect(call, "feed.example", 443, None) == "the second's"
    assert given == [LEAST_SHARE, LEAST_SHARE]


async def test_many_wait_at_once_on_one_loop():
    def slow(connection, served):
        servers.read_request(connection, served)
        time.sleep(0.5)
        connection.sendall(servers.http(200))

    with servers.serving(slow) as served:
        started = time.monotonic()
        talks = [talk(served.url, buying(), deadline=5.0) for _ in range(20)]
        assert set(await asyncio.gather(*talks)) == {Answered()}
        assert time.monotonic() - started < 20 * 0.5 / 2


async def test_a_call_that_is_cancelled_leaves_the_others_alone_and_no_socket():
    def slow(connection, served):
        servers.read_request(connection, served)
        time.sleep(0.3)
        connection.sendall(servers.http(200))

    before = len(os.listdir("/dev/fd"))
    with servers.serving(slow) as served:
        lost = asyncio.create_task(talk(served.url, buying()))
        refused = talk(f"http://127.0.0.1:{closed_port()}", buying())
        asyncio.get_running_loop().call_later(0.1, lost.cancel)
        outcomes = await asyncio.gather(
            lost, refused, *[talk(served.url, buying()) for _ in range(3)], return_exceptions=True
        )
        assert isinstance(outcomes[0], asyncio.CancelledError)
        assert is_not_sent(outcomes[1], "unreachable")
        assert outcomes[2:] == [Answered()] * 3
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX-Own: 1", "/ü"])
async def test_an_address_that_http_cannot_carry_is_not_sent(path):
    with servers.serving(servers.answering(servers.http(200))) as served:
        assert is_not_sent(await talk(served.url, buying(path)), "unbuildable")
        assert served.requests == []


async def test_a_request_leaves_whole_with_its_length_and_nothing_invented():
    with servers.serving(servers.answering(servers.http(200))) as served:
        assert await talk(f"{served.url}/base/", buying(body=b"{1}")) == Answered()
        (request,) = served.requests
    head, body = request.split(b"\r\n\r\n")
    first, *headers = head.decode().split("\r\n")
    assert (first, body) == ("POST /base/buy HTTP/1.1", b"{1}")
    assert dict(line.split(": ") for line in headers) == {
        "Host": served.url.removeprefix("http://"),
        "User-Agent": "slow-carriers/0.1",
        "Accept-Encoding": "identity",
        "Connection": "close",
        "Content-Length": "3",
        "Content-Type": "application/json",
    }


async def test_an_answer_has_its_status_headers_and_whole_body():
    seen = []

    def noting():
        seen.append((yield asking()))
        return Answered()

    answer = servers.http(418, b"x" * 300_000, **{"X-Own": "1"})
    pieces = b"HTTP/1.1 418 T\r\nX-Own: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
    for sent, body in (answer, b"x" * 300_000), (pieces + b"X-Own: after the body\r\n\r\n", b"x"):
        with servers.serving(servers.answering(sent)) as served:
            await perform(noting(), served.url, DEADLINE, CONNECT)
        response = seen.pop()
        assert (response.status, response.body) == (418, body)
        assert response.headers["x-own"] == "1"


async def test_nothing_is_sent_on_a_connection_that_is_closed_already(monkeypatch):
    loop = asyncio.get_running_loop()
    connect = loop.create_connection

    async def closed(*given, **options):
        transport, answer = await connect(*given, **options)
        transport.abort()
        return transport, answer

    monkeypatch.setattr(loop, "create_connection", closed)
    with servers.serving(servers.answering(servers.http(200))) as served:
        assert is_not_sent(await talk(served.url, buying()), "reset")
