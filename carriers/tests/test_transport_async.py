"""The asyncio transport against the same misbehaving sockets."""

from __future__ import annotations

import asyncio
import time

import aiohttp
import pytest

from carriers import transport_async
from carriers.base import CarrierRequest
from carriers.outcomes import Answered, NotSent, Unknown
from carriers.tests import certificates, servers
from carriers.tests.transport_cases import (
    CONNECT,
    DEADLINE,
    MISBEHAVIOURS,
    asking,
    buying,
    closed_port,
    fits,
    is_not_sent,
    steps,
)
from carriers.transport_async import perform

pytestmark = pytest.mark.integration  # real sockets on loopback


async def talk(url, *requests, **options):
    deadline = options.pop("deadline", DEADLINE)
    return await perform(steps(*requests), url, deadline, CONNECT, **options)


@pytest.mark.parametrize(("handler", "allowed", "remark"), MISBEHAVIOURS)
async def test_a_purchase_is_judged_by_what_came_back(handler, allowed, remark):
    with servers.serving(handler) as served:
        outcome = await talk(served.url, buying())
    assert fits(outcome, allowed), remark
    assert len(served.requests) <= 1, "nothing is ever sent twice"


@pytest.mark.parametrize("handler", [servers.hang, servers.reset_after_reading, servers.garbage])
async def test_a_request_that_buys_nothing_leaves_nothing_unknown(handler):
    with servers.serving(handler) as served:
        assert isinstance(await talk(served.url, asking()), NotSent)


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


@pytest.mark.parametrize("handler", [servers.trickle_headers, servers.trickle_body])
async def test_a_trickling_carrier_is_cut_at_the_total_deadline(handler):
    with servers.serving(handler) as served:
        started = time.monotonic()
        assert fits(await talk(served.url, buying()), {"timeout"})
        assert abs(time.monotonic() - started - DEADLINE) < 0.5


async def test_one_deadline_covers_all_steps():
    def slow(connection, served):
        servers.read_request(connection, served)
        time.sleep(0.4)
        connection.sendall(servers.http(200))

    with servers.serving(slow) as served:
        outcome = await talk(served.url, *[asking(f"/{n}") for n in range(9)], deadline=1.0)
        assert isinstance(outcome, NotSent)
        assert len(served.requests) == 3


async def test_the_guard_is_asked_before_the_first_byte_of_a_purchase():
    with servers.serving(servers.answering(servers.http(200))) as served:
        outcome = await talk(served.url, asking(), buying(), may_buy=lambda: False)
        assert is_not_sent(outcome, "send_forbidden")
        assert len(served.requests) == 1


async def test_what_http_cannot_carry_is_not_sent():
    bad = CarrierRequest("POST", "/", {"Authorization": "line\r\nbreak"}, b"", buys=True)
    with servers.serving(servers.answering(servers.http(200))) as served:
        assert is_not_sent(await talk(served.url, bad), "unbuildable")
        assert served.requests == []


async def test_proxies_of_the_environment_are_ignored(monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port()}")
    with servers.serving(servers.answering(servers.http(200))) as served:
        assert await talk(served.url, buying()) == Answered()


async def test_aiohttps_own_time_outs_are_for_connecting_alone(monkeypatch):
    given: list[aiohttp.ClientTimeout] = []
    request = aiohttp.ClientSession._request

    async def noting(*args, **options):
        given.append(options["timeout"])
        return await request(*args, **options)

    monkeypatch.setattr(aiohttp.ClientSession, "_request", noting)
    with servers.serving(servers.answering(servers.http(200))) as served:
        assert await talk(served.url, buying()) == Answered()
    (only,) = given
    for name in ("connect", "sock_connect"):
        assert 0 < getattr(only, name) <= DEADLINE
    assert only.total is only.sock_read is None  # its default would end a call after 300 s


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


async def test_calls_share_one_session_and_the_last_one_closes_it():
    seen: set[tuple[aiohttp.ClientSession, int]] = set()

    def watched(connection, served):
        seen.update(transport_async._sessions.values())
        servers.read_request(connection, served)
        time.sleep(0.3)
        connection.sendall(servers.http(200))

    with servers.serving(watched) as served:
        # One that fails at once and one that is cancelled leave the others their connections.
        lost = asyncio.create_task(talk(served.url, buying()))
        refused = talk(f"http://127.0.0.1:{closed_port()}", buying())
        asyncio.get_running_loop().call_later(0.1, lost.cancel)
        outcomes = await asyncio.gather(
            lost, refused, *[talk(served.url, buying()) for _ in range(3)], return_exceptions=True
        )
        assert isinstance(outcomes[0], asyncio.CancelledError)
        assert is_not_sent(outcomes[1], "unreachable")
        assert outcomes[2:] == [Answered()] * 3
        assert await talk(served.url, buying(), buying()) == Answered()
    assert len({session for session, _ in seen}) == 2, "one for all, and another after the last"
    assert all(session.closed for session, _ in seen)
    assert transport_async._sessions == {}
