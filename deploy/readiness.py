"""Ask a process whether it is ready: by HTTP, by a file that it writes, or by its port.

A question is a line of text, as `strategy.toml` has it:
`GET http://127.0.0.1:8000/readyz` (wants 200), `file /run/worker.ready`, `port 127.0.0.1:8000`,
`uwsgi 127.0.0.1:8001/readyz` (the uwsgi protocol, wants 200), `redis redis://127.0.0.1:6379/0`,
`postgresql postgresql://postgres@127.0.0.1:5432/postgres`.
"""

import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from deploy.loopback import ask

# Answers come from loopback in milliseconds; one that takes longer is asked again.
ANSWER_SECONDS = 2.0
# Short against any start (the fastest takes 50 ms), long against a poll's cost (under 1 ms).
POLL_SECONDS = 0.1


class NotReadyError(RuntimeError):
    """A process did not become ready in time."""


def why_not_ready(question: str) -> str:
    """Ask once; return an empty string when ready, else what came instead."""
    kind, _, target = question.partition(" ")
    try:
        said = _KINDS[kind](target)
    except OSError as error:
        said = str(getattr(error, "reason", error))
    return said and f"{target.rpartition('@')[2]}: {said}"  # without a password


def _http(url: str) -> str:
    status, body = ask(url, seconds=ANSWER_SECONDS)
    return "" if status == 200 else f"answered {status}: {body[:500].decode(errors='replace')}"


def _file(path: str) -> str:
    file = Path(path)
    return "" if file.exists() and file.stat().st_size else "has not been written"


def _connected(url: str) -> socket.socket:
    target = urlsplit(url)
    return socket.create_connection((target.hostname, target.port or 6379), ANSWER_SECONDS)


def _port(address: str) -> str:
    with _connected(f"//{address}"):
        return ""


def _redis(url: str) -> str:
    with _connected(url) as connection:
        connection.sendall(b"PING\r\n")
        answer = connection.recv(100)
    # A server that asks for a password is there, too.
    return "" if answer.startswith((b"+PONG", b"-NOAUTH")) else f"answered {answer!r}"


def _postgresql(url: str) -> str:
    """Ask for a session: after an immediate stop the port opens before there are any."""
    try:
        psycopg.connect(url, connect_timeout=round(ANSWER_SECONDS)).close()
    except psycopg.Error as error:
        return str(error)
    return ""


def _uwsgi(target: str) -> str:
    """Ask the app itself, which speaks no HTTP: uWSGI takes connections before it has loaded it."""
    path = urlsplit(f"//{target}").path
    variables = {
        "REQUEST_METHOD": "GET",
        "REQUEST_URI": path,
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "HTTP_HOST": "127.0.0.1",
        "REMOTE_ADDR": "127.0.0.1",
    }
    texts = [text.encode() for pair in variables.items() for text in pair]
    body = b"".join(struct.pack("<H", len(text)) + text for text in texts)
    # Modifier 0 (a Python request), length, modifier 0: little-endian as all of the protocol.
    packet = struct.pack("<BHB", 0, len(body), 0) + body
    with _connected(f"//{target}") as connection:
        connection.sendall(packet)
        answer = connection.recv(100)
    status = answer.partition(b"\r\n")[0].split()[1:2]
    return "" if status == [b"200"] else f"answered {answer!r}"


_KINDS: dict[str, Callable[[str], str]] = {
    "GET": _http,
    "file": _file,
    "port": _port,
    "uwsgi": _uwsgi,
    "redis": _redis,
    "postgresql": _postgresql,
}


def is_question(text: str) -> bool:
    """Say whether the text is a question that can be asked."""
    kind, _, target = text.partition(" ")
    return kind in _KINDS and bool(target)


def wait_until_ready(
    question: str, *, seconds: float, given_up: Callable[[], str] = lambda: ""
) -> None:
    """Ask until the answer is yes; raise NotReadyError with the last answer when time is over.

    `given_up` is asked between polls: a reason from it (the process has died) ends the wait early.
    """
    end = time.monotonic() + seconds
    while reason := why_not_ready(question):
        if hopeless := given_up():
            raise NotReadyError(hopeless)
        if time.monotonic() > end:
            raise NotReadyError(f"not ready after {seconds:g} s: {reason}")
        time.sleep(POLL_SECONDS)
