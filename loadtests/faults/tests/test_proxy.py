"""The silent proxy: what it forwards, and what it never does."""

import socket
import socketserver
import threading
from collections.abc import Iterator

import pytest

from loadtests.faults.proxy import SilentProxy

pytestmark = pytest.mark.integration
# Seconds; on loopback an answer takes a thousandth of it.
SILENCE = 0.3


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while piece := self.request.recv(100):
            self.request.sendall(piece)


@pytest.fixture
def proxy() -> Iterator[SilentProxy]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        proxy = SilentProxy(server.server_address[1])
        proxy.start()
        yield proxy
        proxy.close()
        server.shutdown()


def client(proxy: SilentProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=5)


def answers(connection: socket.socket, seconds: float = 5) -> bool:
    connection.settimeout(seconds)
    connection.sendall(b"?")
    try:
        return connection.recv(1) == b"?"
    except TimeoutError:
        return False


def test_it_forwards(proxy: SilentProxy) -> None:
    with client(proxy) as connection:
        assert answers(connection)


def test_in_the_silence_nothing_is_answered_or_closed(proxy: SilentProxy) -> None:
    with client(proxy) as old:
        assert answers(old)
        proxy.silence()
        assert not answers(old, SILENCE)
        with client(proxy) as new:
            assert not answers(new, SILENCE)


def test_afterwards_new_connections_answer_and_old_ones_never_do(proxy: SilentProxy) -> None:
    with client(proxy) as old:
        assert answers(old)
        proxy.silence()
        with client(proxy) as during:
            assert not answers(during, SILENCE)
            proxy.speak()
            assert not answers(during, SILENCE)
        assert not answers(old, SILENCE)
        with client(proxy) as new:
            assert answers(new)
