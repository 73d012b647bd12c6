import asyncio
import time
from contextlib import suppress

import pytest

from loadtests.wire import ClosedEarlyError, Wire

pytestmark = pytest.mark.integration

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def exchange(*pieces, keep=True, then=None):
    """Answer each request with the pieces, 20 ms between them; return the wire and its answer."""
    served = asyncio.Event()

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.02)
        if keep:
            with suppress(ConnectionError):
                await reader.read()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        served.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        wire = await Wire.connect(*server.sockets[0].getsockname())
        try:
            answer = await wire.ask(REQUEST)
            if then is not None:
                await then(wire)
            return wire, answer
        finally:
            wire.close()
            await served.wait()


async def test_an_answer_in_pieces_is_one_answer():
    loop = asyncio.get_running_loop()
    began = loop.time()
    _, answer = await exchange(b"HTTP/1.1 200 OK\r\nContent-Le", b"ngth: 4\r\n\r\nab", b"cd")
    assert (answer.status, answer.body) == (200, b"abcd")
    assert answer.first_byte - began < 0.04 < loop.time() - began


async def test_a_chunked_answer_is_put_together():
    _, answer = await exchange(
        b"HTTP/1.1 502 Bad Gateway\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
    )
    assert (answer.status, answer.body) == (502, b"ab")


async def test_a_body_without_length_ends_with_its_connection():
    wire, answer = await exchange(b"HTTP/1.0 200 OK\r\n\r\n", b"all of it", keep=False)
    assert answer.body == b"all of it"
    assert not wire.usable


@pytest.mark.parametrize(
    "pieces",
    [(), (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",), (b"HTTP/1.1 200",)],
)
async def test_an_answer_cut_short_is_none(pieces):
    with pytest.raises(ConnectionError):
        await exchange(*pieces, keep=False)


async def test_what_is_not_http_is_refused():
    with pytest.raises(ClosedEarlyError):
        await exchange(b"220 smtp.example ready\r\n")


async def test_a_connection_that_was_idle_for_half_a_minute_is_not_used_again(monkeypatch):
    usable = []

    async def looks(wire):
        for idle in (0.0, 29.0, 31.0):
            wire._idle_since = time.monotonic() - idle
            usable.append(wire.usable)

    await exchange(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", then=looks)
    assert usable == [True, True, False]


async def test_a_connection_that_the_server_ends_is_not_used_again():
    wire, answer = await exchange(
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    assert answer.status == 200
    assert not wire.usable


async def test_a_connection_on_which_more_comes_than_was_asked_for_is_not_used_again():
    more = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"
    ended = []

    async def waits(wire):
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                while wire.usable:  # noqa: ASYNC110 # nothing tells it
                    await asyncio.sleep(0)
        ended.append(not wire.usable)

    await exchange(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", more, then=waits)
    assert ended == [True]
