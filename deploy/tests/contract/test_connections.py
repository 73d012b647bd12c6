"""Clients of every kind: large and small bodies, kept connections, old protocols."""

import json

import pytest

from deploy.tests.contract.shop import QUICK, at_once, body_of, order
from deploy.tests.contract.wire import Connection

pytestmark = pytest.mark.deployment

# Around the buffers on the way: uWSGI's 4 and 16 KB, nginx' 16 and 128 KB, sockets' 64 KB.
SIZES = [1, 100, 4_096, 8_192, 16_384, 65_536, 131_072, 500_000, 1_000_000]


def padded(size):
    """Return a body of exactly that size, that asks for a label where it is large enough."""
    body = json.dumps({**body_of(order()), "ignored": ""}).encode()
    if size < len(body):
        return b"{" + b" " * (size - 1)
    return json.dumps({**body_of(order()), "ignored": "x" * (size - len(body))}).encode()


def test_bodies_of_every_size(shop):
    bodies = [padded(size) for size in SIZES]
    assert [len(body) for body in bodies] == SIZES
    calls = [lambda body=body: shop.ask("POST", "parcels", body) for body in bodies]
    for size, answer in zip(SIZES, at_once(*calls), strict=True):
        assert not isinstance(answer, Exception), (size, answer)
        assert answer.status == (200 if size > 4_000 else 400), size
        if answer.status == 200:
            assert answer.json["parcel"]["status"]["id"] == 1000


def test_a_large_body_that_nobody_reads(shop):
    """Refused before its body is read: the answer must arrive, not a reset."""
    answer = shop.ask("POST", "parcels", padded(1_000_000), login=False)
    assert answer.status == 401


def test_a_body_that_comes_slowly(shop):
    data = shop.bytes("POST", "parcels", body_of(order()))
    with Connection(shop.port) as connection:
        for start in range(0, len(data), 400):
            connection.send(data[start : start + 400])
        answer = connection.read()
    assert answer.json["parcel"]["status"]["id"] == 1000


def test_a_body_in_chunks(deployment, shop):
    """As .NET's JsonContent sends each one."""
    data = json.dumps(body_of(order())).encode()
    parts = data[:100], data[100:], b""
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    head = shop.bytes("POST", "parcels", headers=[("Transfer-Encoding", "chunked")])
    with deployment.unless_it_cannot("chunks"), Connection(shop.port) as connection:
        answer = connection.ask(head + chunks)
        assert answer.status == 200, answer.body
        assert answer.json["parcel"]["status"]["id"] == 1000


def test_a_kept_connection_serves_waiting_requests_one_after_another(deployment, shop):
    with deployment.unless_it_cannot("keep-alive"), Connection(shop.port) as connection:
        for number in range(4):
            name = f"Receiver {number}"
            answer = connection.ask(shop.bytes("POST", "parcels", body_of(order(name=name))))
            assert answer.json["parcel"]["name"] == name
            assert answer.json["parcel"]["status"]["id"] == 1000
        assert connection.ask(shop.bytes("GET", "parcels/statuses")).status == 200


def test_pipelined_requests_are_answered_in_their_order(deployment, shop):
    names = ["first", "second", "third"]
    orders = [order(name="first"), order(QUICK, name="second"), order(name="third")]
    data = b"".join(shop.bytes("POST", "parcels", body_of(one)) for one in orders)
    with deployment.unless_it_cannot("pipelining"), Connection(shop.port, 8) as connection:
        connection.send(data)
        answers = [connection.read() for _ in orders]
        assert [answer.json["parcel"]["name"] for answer in answers] == names


def test_http_1_0(shop):
    with Connection(shop.port) as connection:
        data = shop.bytes("POST", "parcels", body_of(order()), version="HTTP/1.0")
        answer = connection.ask(data)
        assert answer.json["parcel"]["status"]["id"] == 1000
        assert answer.header("Transfer-Encoding") == ""
        assert connection.ended()


def test_connection_close_is_honoured(shop):
    with Connection(shop.port) as connection:
        headers = [("Connection", "close")]
        answer = connection.ask(shop.bytes("POST", "parcels", body_of(order()), headers=headers))
        assert answer.json["parcel"]["status"]["id"] == 1000
        assert connection.ended()


def test_a_cookie_arrives(shop):
    """Django's WSGI handler begins each with a blank, which h11 refuses: the server hung up."""
    answer = shop.get("/admin/login/", login=False)
    assert (answer.status, answer.header("Set-Cookie")[:10]) == (200, "csrftoken=")
