"""What a webhook may reach. Without the guard every one of these would be asked."""

import ipaddress
import socket
from typing import Any

import pytest

from parcels import limits
from parcels.webhooks import addresses
from parcels.webhooks.addresses import NotAllowed, Policy, is_public, resolve, target

PUBLIC = Policy()
OPEN = Policy(frozenset({"http", "https"}), None, loopback=True, private=True)

CLOSED = [
    ("0.0.0.0", "this host, on Linux"),
    ("0.1.2.3", "this network"),
    ("10.0.0.1", "private"),
    ("100.64.0.1", "carrier-grade NAT"),
    ("100.100.100.200", "a cloud's metadata"),
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "all of 127/8 is loopback"),
    ("169.254.169.254", "clouds' metadata"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "the last of it"),
    ("192.0.0.8", "protocol assignments"),
    ("192.0.2.1", "documentation"),
    ("192.88.99.1", "6to4 relays"),
    ("192.168.1.1", "private"),
    ("198.18.0.1", "benchmarks"),
    ("198.51.100.7", "documentation"),
    ("203.0.113.7", "documentation"),
    ("224.0.0.1", "multicast"),
    ("240.0.0.1", "reserved"),
    ("255.255.255.255", "broadcast"),
    ("::", "unspecified"),
    ("::1", "loopback"),
    ("::127.0.0.1", "IPv4-compatible"),
    ("::ffff:127.0.0.1", "IPv4-mapped loopback"),
    ("::ffff:169.254.169.254", "IPv4-mapped metadata"),
    ("::ffff:0:127.0.0.1", "SIIT"),
    ("64:ff9b::7f00:1", "NAT64 of loopback"),
    ("64:ff9b::a9fe:a9fe", "NAT64 of the metadata"),
    ("64:ff9b:1::7f00:1", "NAT64 of a local network"),
    ("100::1", "discard"),
    ("2001::7f00:1", "Teredo"),
    ("2001:db8::1", "documentation"),
    ("2002:7f00:1::", "6to4 of loopback"),
    ("2002:a9fe:a9fe::", "6to4 of the metadata"),
    ("3fff::1", "documentation"),
    ("fc00::1", "unique local"),
    ("fd00:ec2::254", "a cloud's metadata"),
    ("fe80::1", "link-local"),
    ("fe80::1%1", "link-local with a zone"),
    ("fec0::1", "site-local"),
    ("ff02::1", "multicast"),
]
REACHABLE = [
    "1.1.1.1",
    "8.8.8.8",
    "172.32.0.1",
    "2606:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
]


@pytest.mark.parametrize(("address", "remark"), CLOSED)
def test_addresses_that_are_not_the_internet_are_closed(address: str, remark: str) -> None:
    assert not PUBLIC.allows(ipaddress.ip_address(address)), remark


@pytest.mark.parametrize("address", REACHABLE)
def test_public_addresses_are_open(address: str) -> None:
    assert PUBLIC.allows(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    ("address", "open_"),
    [
        ("10.0.0.1", True),
        ("::ffff:10.0.0.1", True),
        ("127.0.0.1", True),
        ("::1", True),
        ("fd12::1", True),
        ("169.254.169.254", False),
        ("fd00:ec2::254", False),
        ("fd20:ce::254", False),
        ("fd00:42::42", False),
        ("100.100.100.200", False),
        ("fe80::1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
    ],
)
def test_allowing_private_networks_keeps_clouds_metadata_closed(address: str, open_: bool) -> None:
    assert OPEN.allows(ipaddress.ip_address(address)) is open_


def test_the_demo_opens_loopback_and_nothing_else(settings: Any) -> None:
    from parcels.webhooks.addresses import current_policy

    settings.DEMO, settings.WEBHOOK_ALLOW_PRIVATE = True, False
    policy = current_policy()
    assert policy.allows(ipaddress.ip_address("127.0.0.1"))
    assert not policy.allows(ipaddress.ip_address("10.0.0.1"))
    settings.DEMO = False
    assert current_policy() == Policy(ports=frozenset({443, 8443}))
    settings.WEBHOOK_PORTS = []  # not any port
    with pytest.raises(NotAllowed, match="port 443"):
        target("https://shop.example/hook", current_policy())


@pytest.mark.parametrize(
    "url",
    [
        "",
        "shop.example",
        "//shop.example/hook",
        "http://shop.example/hook",
        "ftp://shop.example/",
        "file:///etc/passwd",
        "gopher://shop.example:443/",
        "https://",
        "https:///hook",
        "https://shop.example:22/",
        "https://shop.example:0/",
        "https://shop.example:99999/",
        "https://user:password@shop.example/",
        "https://shop.example\\@10.0.0.1/",
        "https://shop.example/a b",
        "https://shop.example/\r\nX-Evil: 1",
        "https://[::1/",
        "https://exämple.de/",
    ],
)
def test_what_is_no_plain_https_url_is_refused(url: str) -> None:
    with pytest.raises(NotAllowed):
        target(url, PUBLIC)


@pytest.mark.parametrize("host", ["\u0301\u0316", "a" * limits.WEBHOOK_URL])
def test_what_is_none_is_not_read(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """urlsplit takes the square of such a host's length, and remembers the last 128 addresses."""
    monkeypatch.setattr(addresses, "urlsplit", lambda _: pytest.fail("it was read"))
    with pytest.raises(NotAllowed, match="not a URL"):
        target(f"https://{host}/", PUBLIC)


def test_a_url_is_taken_apart() -> None:
    found = target("https://shop.example/hook?a=1#f", PUBLIC)
    assert (found.host, found.port, found.path) == ("shop.example", 443, "/hook?a=1")


def answering(*addresses: str) -> Any:
    """Return a resolver that always answers so, and counts."""

    def resolver(host: str, port: int, **_: Any) -> list[Any]:
        resolver.calls += 1  # type: ignore[attr-defined]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in addresses]

    resolver.calls = 0  # type: ignore[attr-defined]
    return resolver


@pytest.mark.parametrize(
    ("addresses", "open_"),
    [
        (["8.8.8.8"], True),
        (["8.8.8.8", "127.0.0.1"], False),
        (["127.0.0.1"], False),
        ([], False),
    ],
)
def test_each_address_of_a_name_must_be_allowed(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str], open_: bool
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", answering(*addresses))
    if open_:
        assert resolve("shop.example", 443, PUBLIC) == [(socket.AF_INET, ("8.8.8.8", 443))]
    else:
        with pytest.raises(NotAllowed):
            resolve("shop.example", 443, PUBLIC)


@pytest.mark.parametrize("error", [socket.gaierror("no"), OSError("no"), UnicodeError("no")])
def test_trouble_with_the_resolver_is_closed(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(NotAllowed):
        resolve("shop.example", 443, PUBLIC)


@pytest.mark.parametrize("spelling", ["2130706433", "0x7f.1", "0177.0.0.1", "127.1", "localhost"])
def test_other_spellings_of_loopback_are_closed(spelling: str) -> None:
    with pytest.raises(NotAllowed):
        resolve(spelling, 443, PUBLIC)


def test_pythons_own_word_is_not_enough() -> None:
    """Why the table exists: with `is_global` alone some of these would pass."""
    passed = [a for a, _ in CLOSED if ipaddress.ip_address(a).is_global]
    assert passed
    assert not any(is_public(ipaddress.ip_address(address)) for address in passed)
