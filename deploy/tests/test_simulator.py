"""The simulator's own delay, as a load test judges it."""

import socket

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


@pytest.mark.integration
def test_neither_is_one_that_is_refused():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert lookup(unused.getsockname()[1]) == LOOKUP_PATIENCE
