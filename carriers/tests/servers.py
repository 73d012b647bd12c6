"""Tiny misbehaving servers on loopback, one behaviour per function."""

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Handler = Callable[[socket.socket, "Served"], None]


@dataclass
class Served:
    """A server's address, what it was sent, and an event that ends its handlers."""

    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    scheme: str = "http"

    @property
    def url(self):
        return f"{self.scheme}://localhost:{self.port}"


@contextlib.contextmanager
def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> Iterator[Served]:
    """Run a handler per connection, in threads; all are ended and joined on the way out."""
    listener = socket.create_server(("127.0.0.1", 0))
    served = Served(listener.getsockname()[1], scheme="https" if tls else "http")
    threads = [threading.Thread(target=_accept, args=(listener, handler, served, tls))]
    threads[0].start()
    try:
        yield served
    finally:
        served.stop.set()
        with contextlib.suppress(OSError):  # wakes accept()
            socket.create_connection(("127.0.0.1", served.port), 1).close()
        threads[0].join(5)
        listener.close()


@contextlib.contextmanager
def silent() -> Iterator[tuple[str, int]]:
    """Return an address that takes no connection and refuses none: its listen queue is full."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as full,
        contextlib.ExitStack() as taken,
    ):
        for _ in range(4):
            client = taken.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        yield full.getsockname()


def _accept(listener, handler, served, tls):
    threads = []
    while not served.stop.is_set():
        connection, _ = listener.accept()
        if served.stop.is_set():
            connection.close()
            break
        thread = threading.Thread(target=_handle, args=(connection, handler, served, tls))
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join(5)


def _handle(connection, handler, served, tls):
    with contextlib.suppress(OSError):
        if tls is not None:
            connection = tls.wrap_socket(connection, server_side=True)
        with connection:
            handler(connection, served)


def read_request(connection, served):
    """Read one request, body included, and remember it."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            return
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    while len(body) < length:
        chunk = connection.recv(65536)
        if not chunk:
            return
        body += chunk
    served.requests.append(head + b"\r\n\r\n" + body)


def answering(*answers: bytes) -> Handler:
    """Answer the n-th request with the n-th answer; the last one repeats."""

    def handle(connection, served):
        read_request(connection, served)
        connection.sendall(answers[min(len(served.requests), len(answers)) - 1])

    return handle


def http(status: int, body: bytes = b"", **headers: str) -> bytes:
    """Write a whole HTTP answer."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def reset_at_once(connection, served):
    """Reset as soon as the connection is there."""
    _reset(connection)


def reset_after_reading(connection, served):
    """Read the request, then reset."""
    read_request(connection, served)
    _reset(connection)


def close_after_reading(connection, served):
    """Read the request, then close without a word."""
    read_request(connection, served)


def _reset(connection):
    # SO_LINGER with zero seconds makes close() send a RST.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def hang(connection, served):
    """Read the request and say nothing."""
    read_request(connection, served)
    served.stop.wait(30)


def trickle_headers(connection, served):
    """Send a header line that never ends, a byte each 0.1 s: no read ever times out."""
    read_request(connection, served)
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    _trickle(connection, served)


def trickle_body(connection, served):
    """Send the headers at once and the body a byte each 0.1 s."""
    read_request(connection, served)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    _trickle(connection, served)


def trickle_endless_body(connection, served):
    """Trickle a body without a length: being cut looks like its end."""
    read_request(connection, served)
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    _trickle(connection, served)


def _trickle(connection, served):
    while not served.stop.wait(0.1):
        connection.sendall(b"x")


def truncate_body(connection, served):
    """Promise more than is sent."""
    read_request(connection, served)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 100)


def flood(connection, served):
    """Send a body over any bound."""
    read_request(connection, served)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n")
    while not served.stop.is_set():
        connection.sendall(b"x" * 65536)


def interim_without_end(connection, served):
    """Send interim answers of two kinds as fast as they are read."""
    read_request(connection, served)
    while not served.stop.is_set():
        connection.sendall(b"HTTP/1.1 100 X\r\n\r\n" * 999 + b"HTTP/1.1 103 X\r\n\r\n")


def garbage(connection, served):
    """Answer something that is no HTTP."""
    read_request(connection, served)
    connection.sendall(b"\x15\x03\x01 nothing of the kind\r\n\r\n")


def hang_in_handshake(connection, served):
    """Accept, and never say a word: a TLS client waits in its handshake."""
    served.stop.wait(30)


def not_reading(connection, served):
    """Accept a connection and never read: a large body gets stuck on its way."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    served.stop.wait(30)
