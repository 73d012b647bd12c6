"""The simulator's own delay, as a load test judges it."""

import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from deploy import simulator
from deploy.simulator import LOOKUP_PATIENCE, Simulator


@pytest.fixture
def deaf(monkeypatch):
    """An address that accepts and never answers."""
    monkeypatch.setattr(simulator, "LOOKUP_PATIENCE", 0.2)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def lookup(port):
    environment = {"SIMULATOR_URL": "", "CARRIER_URL_POSTNL": f"http://127.0.0.1:{port}"}
    return Simulator(environment).lookup_seconds()


@pytest.mark.integration
def test_a_lookup_without_an_answer_is_no_missing_figure(deaf):
    assert lookup(deaf) == 0.2


class Carrier(BaseHTTPRequestHandler):
    """Lists shipments for a credential, as the simulated carriers do."""

    def do_GET(self):
        self.send_response(200 if self.headers["Authorization"] else 401)
        self.end_headers()

    def log_message(self, *_):
        """Say nothing."""


class Broken(Carrier):
    def do_GET(self):
        self.send_error(500)


@pytest.mark.integration
@pytest.mark.parametrize(("handler", "counts"), [(Carrier, False), (Broken, True)])
def test_only_a_list_is_a_lookups_answer(handler, counts):
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert (lookup(server.server_port) == LOOKUP_PATIENCE) is counts


@pytest.mark.integration
def test_neither_is_one_that_is_refused():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert lookup(unused.getsockname()[1]) == LOOKUP_PATIENCE
