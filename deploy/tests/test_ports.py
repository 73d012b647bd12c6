import socket
import subprocess
import sys

import pytest

from deploy.ports import HIGHEST, KEPT, LOWEST, free_ports, is_free


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_port_with_a_listener_is_not_free(host):
    port = free_ports(1)[0]
    with socket.socket() as listener:
        listener.bind((host, port))
        listener.listen()
        assert not is_free(port)
    assert is_free(port)


def test_free_ports_are_different_and_outside_the_kernels_range():
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(LOWEST <= port < HIGHEST for port in ports)


def test_a_port_is_given_once():
    """Others look for ports while ours are not bound yet; the oldest are let go in the end."""
    ours = free_ports(100)
    asked = f"from deploy.ports import take; print([take(port) for port in {ours}])"
    other = [sys.executable, "-c", asked]
    assert eval(subprocess.check_output(other)) == [False] * 100
    # Half, since a port with another's listener is kept as well: ours would be let go meanwhile.
    assert not set(ours) & set(free_ports(KEPT // 2))
    free_ports(KEPT)
    # Some may be another test's by now.
    assert eval(subprocess.check_output(other)).count(True) > 50
