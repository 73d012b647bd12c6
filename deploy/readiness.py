"""Ask a process whether it is ready: by HTTP, by a file that it writes, or by its port.

A question is a line of text, as `strategy.toml` has it:
`GET http://127.0.0.1:8000/readyz` (wants 200), `file /run/worker.ready`, `port 127.0.0.1:8000`,
`uwsgi 127.0.0.1:8001/readyz` (the uwsgi protocol, wants 200), `redis redis://127.0.0.1:6379/0`.
"""

import socket
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from deploy.loopback import ask
from deploy.uwsgi_question import uwsgi_status

# Answers come from loopback in milliseconds; one that takes longer is asked again.
ANSWER_SECONDS = 2.0
# Short against any start (the fastest takes 50 ms), long against a poll's cost (under 1 ms).
POLL_SECONDS = 0.1


class NotReadyError(RuntimeError):
    """A process did not become ready in time."""


def why_not_ready(question: str) -> str:
    """Ask once; return an empty string when ready, else what came instead."""
    kind, _, target = question.partition(" ")
    return _KINDS[kind](target)


def _http(url: str) -> str:
    try:
        status, body = ask(url, seconds=ANSWER_SECONDS)
    except OSError as error:
        return f"{url}: {getattr(error, 'reason', error)}"
    said = body[:500].decode(errors="replace")
    return "" if status == 200 else f"{url} answered {status}: {said}"


def _file(path: str) -> str:
    file = Path(path)
    return "" if file.exists() and file.stat().st_size else f"{path} has not been written"


def _port(address: str) -> str:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host or "127.0.0.1", int(port)), ANSWER_SECONDS):
            return ""
    except OSError as error:
        return f"{address}: {error}"


def _uwsgi(target: str) -> str:
    """Ask the app itself: uWSGI takes connections before it has loaded one."""
    address, slash, path = target.partition("/")
    host, _, port = address.rpartition(":")
    try:
        status = uwsgi_status(host or "127.0.0.1", int(port), slash + path)
    except (OSError, ValueError) as error:
        return f"{target}: {error}"
    return "" if status == 200 else f"{target} answered {status}"


def _redis(url: str) -> str:
    # Of several Sentinels the first, which answers as Redis does.
    host, _, port = urlsplit(url).netloc.rpartition("@")[2].partition(",")[0].partition(":")
    address = (host or "127.0.0.1", int(port or 6379))
    try:
        with socket.create_connection(address, ANSWER_SECONDS) as connection:
            connection.settimeout(ANSWER_SECONDS)
            connection.sendall(b"PING\r\n")
            answer = connection.recv(100)
    except OSError as error:
        return f"redis {address}: {error}"  # not the URL: it has a password
    # A server that asks for a password is there, too.
    return (
        "" if answer.startswith((b"+PONG", b"-NOAUTH")) else f"redis {address} answered {answer!r}"
    )


_KINDS: dict[str, Callable[[str], str]] = {
    "GET": _http,
    "file": _file,
    "port": _port,
    "uwsgi": _uwsgi,
    "redis": _redis,
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
