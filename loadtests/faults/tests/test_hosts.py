"""Hosts as network namespaces: they reach each other until a link is cut, slowed or they die."""

import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.readiness import NotReadyError, why_not_ready
from loadtests.faults.hosts import HostsMissingError, Network, require_hosts

pytestmark = pytest.mark.deployment

ADDRESS = "10.29.9.2"
PORT = 8000
SERVER = f"{sys.executable} -m http.server {PORT}"
QUESTION = f"port {ADDRESS}:{PORT}"
# Seconds each way, and what the two kernels and one Python add on a busy machine.
DELAY, MORE = 0.2, 0.5


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    try:
        require_hosts()
    except HostsMissingError as reason:
        pytest.skip(str(reason))  # the machine's, not a package: under CI, too
    network = Network(tmp_path, ("near", "far"))
    try:
        network.open()
        network.join("near", "far")
        yield network
    finally:
        network.close()


def test_a_host_answers_until_it_is_cut_off_or_dead(network: Network) -> None:
    here = socket.gethostname(), socket.if_nameindex()
    client = network.add("client", near="10.29.9.1/24")
    server = network.add("server", far=f"{ADDRESS}/24")
    child = server.run("web", SERVER, ready=QUESTION)
    with client.inside():
        assert socket.gethostname() == "client"
        assert not why_not_ready(QUESTION)
        network.cut("server", "far")
        assert "timed out" in why_not_ready(QUESTION)
        network.mend("server", "far")
        assert not why_not_ready(QUESTION)
        server.kill()
        assert "refused" in why_not_ready(QUESTION)
    assert not child.running
    assert (socket.gethostname(), socket.if_nameindex()) == here


def test_a_slow_link_delays_and_loses(network: Network) -> None:
    client = network.add("client", near="10.29.9.1/24")
    server = network.add("server", far=f"{ADDRESS}/24")
    server.run("web", SERVER, ready=QUESTION)
    with client.inside():
        with network.slow("near", "far", delay=DELAY, loss=0):
            assert not why_not_ready(QUESTION)  # who has the address was asked for, too
            assert 2 * DELAY <= quickest() < 2 * DELAY + MORE
        assert quickest() < 2 * DELAY
        with network.slow("near", "far", delay=0, loss=1):
            assert why_not_ready(QUESTION)


def quickest() -> float:
    """Return the seconds of the quickest of several questions: a busy machine delays some."""

    def seconds() -> float:
        begun = time.monotonic()
        assert not why_not_ready(QUESTION)
        return time.monotonic() - begun

    return min(seconds() for _ in range(10))


def test_a_slow_link_that_ends_as_it_begins_is_none(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its traceback is no link: the step would measure a cable that is cut."""
    monkeypatch.setattr(sys, "executable", "sh -c 'echo Traceback; exit 1'")
    with (
        pytest.raises(NotReadyError, match="Traceback"),
        network.slow("near", "far", delay=0, loss=0),
    ):
        pytest.fail("it was ready")
