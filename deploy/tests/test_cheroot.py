"""Cheroot: what comes behind a body without a plain length is no request, and HEAD has no body."""

import os
import re
import socket
import sys
from pathlib import Path

import pytest

from deploy.child import Child
from deploy.plan import ROOT
from deploy.ports import free_port
from deploy.stores import START_SECONDS
from deploy.strategy import load

pytestmark = pytest.mark.integration
LONG = "POST /api/v2/parcels HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n{{}}"
POST = "POST /api/v2/parcels HTTP/{}\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
HIDDEN = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    found = free_port()
    given = {"BIND_HOST": "127.0.0.1", "PORT": str(found), "WEB_THREADS": "2"}
    # As `make run` starts it in a shell that has a PYTHONPATH of its own.
    given |= {"PYTHONPATH": "/elsewhere", "PATH": str(Path(sys.executable).parent)}
    child = Child(
        "cheroot",
        load("cheroot").processes["web"],
        log=tmp_path_factory.mktemp("cheroot") / "cheroot.log",
        env={**os.environ, **load("cheroot").environment, **given},
        cwd=ROOT,
    )
    try:
        child.start()
        child.wait_ready(f"GET http://127.0.0.1:{found}/healthz", START_SECONDS)
        yield found
    finally:
        child.kill()


@pytest.mark.parametrize(
    ("request_", "statuses"),
    [
        (POST.format("1.1") + "\r\n2\r\n{}\r\n0\r\n\r\n", ["401"]),
        (POST.format("1.1") + "\r\nno size\r\n", ["401"]),
        (POST.format("1.1") + "\r\n-1\r\n", ["401"]),
        (POST.format("1.1") + "\r\n2\r\nlonger", ["401"]),
        (POST.format("1.1") + "\r\n800001\r\n", ["413"]),
        (POST.format("1.0") + "Connection: Keep-Alive\r\n\r\n", ["401"]),
    ],
    ids=["whole", "no size", "negative", "longer than said", "over 8 MB", "of HTTP/1.0"],
)
def test_what_comes_behind_chunks_is_no_request(port, request_, statuses):
    with socket.create_connection(("127.0.0.1", port), START_SECONDS) as client:
        client.sendall((request_ + HIDDEN).encode())
        answer = b"".join(iter(lambda: client.recv(65_536), b"")).decode()
    assert re.findall(r"HTTP/1\.1 (\d+)", answer) == statuses


@pytest.mark.parametrize(
    ("length", "statuses"),
    [
        ("2", ["401", "200"]),
        ("-2", ["400"]),
        ("+2", ["400"]),
        ("0_2", ["400"]),
        ("90\r\nContent-Length: 2", ["400"]),
        ("90\r\n 2", ["400"]),
    ],
    ids=["plain", "negative", "with a plus", "in groups", "two", "continued"],
)
def test_what_comes_behind_a_length_that_is_no_number_is_no_request(port, length, statuses):
    with socket.create_connection(("127.0.0.1", port), START_SECONDS) as client:
        client.sendall((LONG.format(length) + HIDDEN).encode())
        answer = b"".join(iter(lambda: client.recv(65_536), b"")).decode()
    assert re.findall(r"HTTP/1\.1 (\d+)", answer) == statuses


def test_a_chunk_s_size_may_not_fill_the_memory(port):
    with socket.create_connection(("127.0.0.1", port), START_SECONDS) as client:
        client.sendall(POST.format("1.1").encode() + b"\r\n" + b"a" * 8 * 1024 * 1024)
        assert client.recv(65_536).startswith(b"HTTP/1.1 413 ")


def test_an_answer_to_head_has_no_body(port):
    """A client would take it for the next answer."""
    with socket.create_connection(("127.0.0.1", port), START_SECONDS) as client:
        client.sendall(HIDDEN.replace("GET", "HEAD").replace("close", "keep-alive").encode())
        client.sendall(HIDDEN.encode())
        answers = b"".join(iter(lambda: client.recv(65_536), b"")).split(b"\r\n\r\n")
    assert [answer[:12] for answer in answers[:2]] == [b"HTTP/1.1 200"] * 2
    assert answers[2:] == [b'{"status": "ok"}']


def test_a_name_with_underscores_is_another_one(port):
    """`X_Forwarded_For` would be taken for what a proxy says, which passes it on."""
    with socket.create_connection(("127.0.0.1", port), START_SECONDS) as client:
        client.sendall(HIDDEN.replace("\r\n\r\n", "\r\nX_Request_ID: forged\r\n\r\n").encode())
        assert b"forged" not in b"".join(iter(lambda: client.recv(65_536), b""))


def test_headers_have_an_end(port):
    with socket.create_connection(("127.0.0.1", port), START_SECONDS) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nX-Long: " + b"a" * 100_000 + b"\r\n\r\n")
        assert client.recv(65_536).startswith(b"HTTP/1.1 413 ")
