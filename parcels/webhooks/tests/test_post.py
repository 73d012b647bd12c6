"""Sending: what arrives, what is never followed or kept, when it ends."""

import socket
import time
from pathlib import Path
from typing import Any

import pytest

from carriers.tests import servers
from carriers.tests.certificates import contexts
from parcels.webhooks.addresses import Policy
from parcels.webhooks.post import Answer, post

pytestmark = pytest.mark.integration
OPEN = Policy(frozenset({"http", "https"}), None, loopback=True)
CLOSED = Policy(frozenset({"http", "https"}), None)


def send(url: str, *, policy: Policy = OPEN, deadline: float = 5, **options: Any) -> Answer:
    return post(url, b'{"a": 1}', {"X-A": "b"}, policy=policy, deadline=deadline, **options)


def test_the_exact_body_and_headers_arrive() -> None:
    with servers.serving(servers.answering(servers.http(204))) as served:
        answer = send(f"{served.url}/hook?x=1")
    assert answer.taken
    request = served.requests[0]
    assert request.startswith(b"POST /hook?x=1 HTTP/1.1\r\n")
    assert request.endswith(b'\r\n\r\n{"a": 1}')
    assert request.count(b"Host: ") == 1
    assert f"Host: localhost:{served.port}\r\n".encode() in request
    assert b"X-A: b\r\n" in request
    assert b"Content-Type: application/json\r\n" in request


def test_the_guard_keeps_loopback_closed_and_nothing_is_sent() -> None:
    """The negative control is the test above: with the guard off the same request arrives."""
    with servers.serving(servers.answering(servers.http(200))) as served:
        answer = send(served.url, policy=CLOSED)
    assert (answer.status, answer.error) == (None, "the address is not allowed")
    assert not served.requests


def test_the_name_is_resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that answers otherwise the second time (DNS rebinding) gains nothing."""
    resolve, asked = socket.getaddrinfo, []

    def rebinding(host: str, *arguments: Any, **named: Any) -> Any:
        asked.append(host)
        return resolve("127.0.0.1" if len(asked) == 1 else "127.0.0.2", *arguments, **named)

    with servers.serving(servers.answering(servers.http(200))) as served:
        monkeypatch.setattr(socket, "getaddrinfo", rebinding)
        answer = send(f"http://rebind.test:{served.port}/")
        monkeypatch.undo()
    assert answer.taken
    assert asked == ["rebind.test"]


def test_redirects_are_answers() -> None:
    elsewhere = servers.http(307, Location="http://169.254.169.254/latest/")
    with servers.serving(servers.answering(elsewhere)) as served:
        answer = send(served.url)
    assert (answer.status, answer.taken) == (307, False)
    assert len(served.requests) == 1


def test_interim_answers_are_passed_over() -> None:
    """As any client must (RFC 9110, 15.2); a receiver's proxy sends them."""
    interim = b"HTTP/1.1 100 X\r\n\r\nHTTP/1.1 103 X\r\nLink: </a>\r\n\r\nHTTP/1.1 102 X\r\n\r\n"
    with servers.serving(servers.answering(interim + servers.http(204))) as served:
        assert send(served.url).status == 204


def test_interim_answers_without_an_end_are_none() -> None:
    """Until the deadline they would keep a processor busy."""
    with servers.serving(servers.interim_without_end) as served:
        assert send(served.url).error == "HTTPException"


def test_tls_is_verified_against_the_name(tmp_path: Path) -> None:
    server, client = contexts(tmp_path)
    with servers.serving(servers.answering(servers.http(200)), server) as served:
        assert send(served.url, tls=client).taken
        assert send(served.url).error == "TLS failed"
        by_address = f"https://127.0.0.1:{served.port}/"
        assert send(by_address, tls=client).error == "TLS failed"


@pytest.mark.parametrize(
    "behaviour",
    [servers.hang, servers.trickle_headers, servers.hang_in_handshake],
)
def test_the_deadline_is_total(behaviour: servers.Handler) -> None:
    with servers.serving(behaviour) as served:
        started = time.monotonic()
        answer = send(served.url, deadline=0.5)
    assert answer.error == "time-out"
    assert time.monotonic() - started < 5


def test_a_flood_is_not_read() -> None:
    with servers.serving(servers.flood) as served:
        assert send(served.url).status == 200


@pytest.mark.parametrize(
    "behaviour",
    [servers.reset_at_once, servers.reset_after_reading, servers.garbage],
)
def test_trouble_is_an_answer(behaviour: servers.Handler) -> None:
    with servers.serving(behaviour) as served:
        answer = send(served.url)
    assert answer.status is None
    assert answer.error


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert send(f"http://127.0.0.1:{port}/").error == "ConnectionRefusedError"
