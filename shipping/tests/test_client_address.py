"""The client's address is what our own proxies say, and nothing that a client writes."""

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import RequestFactory

from shipping import env
from shipping.client_address import client_address, client_network

BALANCERS = ["10.0.0.0/8", "fd00::/8"]


@pytest.mark.parametrize(
    ("trusted", "peer", "forwarded", "address"),
    [
        ([], "192.0.2.1", "198.51.100.7", "192.0.2.1"),  # anybody can write the header
        (BALANCERS, "192.0.2.1", "198.51.100.7", "192.0.2.1"),
        (BALANCERS, "10.0.0.1", "198.51.100.7", "198.51.100.7"),
        (BALANCERS, "10.0.0.1", "203.0.113.9, 198.51.100.7, 10.0.0.2", "198.51.100.7"),
        (BALANCERS, "10.0.0.1", "", "10.0.0.1"),
        (BALANCERS, "10.0.0.1", "198.51.100.7, unknown", "10.0.0.1"),  # nothing left of nonsense
        (BALANCERS, "10.0.0.1", "10.0.0.2", "10.0.0.2"),
        (BALANCERS, "fd00::1", "2001:db8::0007", "2001:db8::7"),
        (BALANCERS, "::ffff:10.0.0.1", "::ffff:198.51.100.7", "198.51.100.7"),
        (BALANCERS, "10.0.0.1", "fe80::1%evil", "fe80::1"),
        (BALANCERS, "10.0.0.1", "198.51.100.7:4711", "198.51.100.7"),
        (BALANCERS, "10.0.0.1", "[2001:db8::7]:4711, [fd00::1]", "2001:db8::7"),
        (BALANCERS, "10.0.0.1", "[2001:db8::7, 198.51.100.7:", "10.0.0.1"),
        (BALANCERS, "", "198.51.100.7", ""),  # a Unix socket: trusted only where it is named
        (["unix"], "", "198.51.100.7", "198.51.100.7"),
        (["unix"], "10.0.0.1", "198.51.100.7", "10.0.0.1"),
    ],
)
def test_only_trusted_proxies_are_believed(
    settings: Any, trusted: list[str], peer: str, forwarded: str, address: str
) -> None:
    settings.TRUSTED_PROXIES = trusted
    request = RequestFactory().get("/", REMOTE_ADDR=peer, HTTP_X_FORWARDED_FOR=forwarded)
    assert client_address(request) == address


@pytest.mark.parametrize(
    ("address", "network"),
    [("192.0.2.1", "192.0.2.1"), ("2001:db8:0:1:2:3:4:5", "2001:db8:0:1::/64"), ("", "")],
)
def test_one_client_of_ipv6_is_a_network(address: str, network: str) -> None:
    assert client_network(RequestFactory().get("/", REMOTE_ADDR=address)) == network


def test_the_setting_takes_both_separators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUSTED_PROXIES", "10.0.0.0/8,fd00::/8 unix  192.0.2.1")
    networks = env.networks("TRUSTED_PROXIES", "unix")
    assert networks == ["10.0.0.0/8", "fd00::/8", "unix", "192.0.2.1/32"]


@pytest.mark.parametrize("value", ["10.0.0.1/8", "balancer", "10.0.0.0/33"])
def test_what_is_no_network_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("TRUSTED_PROXIES", value)
    with pytest.raises(ImproperlyConfigured, match="TRUSTED_PROXIES"):
        env.networks("TRUSTED_PROXIES", "unix")
