import socket

import pytest

from deploy.ports import HIGHEST, LANE, LOWEST, free_ports, is_free


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


def test_lanes_have_no_port_in_common(monkeypatch):
    lanes = []
    for lane in ("0/4", "3/4"):
        monkeypatch.setenv(LANE, lane)
        lanes.append({port % 4 for port in free_ports(20)})
    assert lanes == [{0}, {3}]
