"""Which addresses a webhook may reach.

A shop chooses the address, we make the connection: without a guard it could ask our own network
through us (server-side request forgery). What counts is the address that is connected to, never
the name, which may answer differently a second later.
"""

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings

from parcels import limits

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

# Global unicast: everything else in IPv6 is for special use.
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
# Within it, or global by the word of some Python version, and still for special use (IANA's
# registries of special-purpose addresses). 2002::/16 and 2001::/32 carry IPv4 addresses in them.
_SPECIAL = [
    ipaddress.ip_network(block)
    for block in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24"),
        *("192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        *("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"),
    )
]
# IPv4 inside IPv6: as the kernel maps it, and as NAT64 translates it.
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# What WEBHOOK_ALLOW_PRIVATE adds. Link-local stays closed: clouds keep their credentials there.
_PRIVATE = [
    ipaddress.ip_network(block)
    for block in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
]
# Where clouds keep them beside it: Alibaba, Scaleway, AWS, Google.
_METADATA = [
    ipaddress.ip_network(block)
    for block in ("100.100.100.200", "fd00:42::42", "fd00:ec2::/32", "fd20:ce::254")
]
_LOOPBACK = [ipaddress.ip_network(block) for block in ("127.0.0.0/8", "::1/128")]


class NotAllowed(Exception):
    """The address may not be reached; the message is a short reason for the delivery log."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What may be reached; `ports` None: any."""

    schemes: frozenset[str] = frozenset({"https"})
    ports: frozenset[int] | None = frozenset({443})
    loopback: bool = False
    private: bool = False

    def allows(self, address: IPAddress) -> bool:
        """Tell whether this very address may be connected to."""
        address = embedded(address)
        if self.loopback and _in(address, _LOOPBACK):
            return True
        if self.private and _in(address, _PRIVATE) and not _in(address, _METADATA):
            return True
        return is_public(address)


def current_policy() -> Policy:
    """Return the policy of the settings. DEMO opens loopback: its receivers run beside it."""
    private = settings.WEBHOOK_ALLOW_PRIVATE
    if private or settings.DEMO:
        return Policy(frozenset({"http", "https"}), None, True, private)
    return Policy(ports=frozenset(map(int, settings.WEBHOOK_PORTS)))


def embedded(address: IPAddress) -> IPAddress:
    """Return the IPv4 address that is meant by a mapped or translated IPv6 address."""
    if isinstance(address, ipaddress.IPv6Address) and (address in _MAPPED or address in _NAT64):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def is_public(address: IPAddress) -> bool:
    """Tell whether the whole Internet can reach this address."""
    if isinstance(address, ipaddress.IPv6Address) and (
        address.scope_id or address not in _GLOBAL_V6
    ):
        return False
    return address.is_global and not address.is_multicast and not _in(address, _SPECIAL)


def _in(address: IPAddress, networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    return any(address in network for network in networks)


@dataclass(frozen=True, slots=True)
class Target:
    """A checked URL, taken apart."""

    scheme: str
    host: str
    port: int
    path: str
    authority: str  # for the Host header


def target(url: str, policy: Policy) -> Target:
    """Take a URL apart.

    Raises:
        NotAllowed: it is no URL, or its scheme or port may not be reached.
    """
    # Before it is read: urlsplit takes the square of the length of a host that isn't ASCII, and
    # remembers what it was given, however long.
    if not (url.isascii() and url.isprintable()) or " " in url or len(url) > limits.WEBHOOK_URL:
        raise NotAllowed("not a URL")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host:
        raise NotAllowed("not a URL")
    if parts.scheme not in policy.schemes:
        raise NotAllowed(f"scheme {parts.scheme or 'missing'} is not allowed")
    if parts.username is not None or parts.password is not None:
        raise NotAllowed("credentials in the URL are not allowed")
    if port is None:
        port = 443 if parts.scheme == "https" else 80
    if policy.ports is not None and port not in policy.ports:
        raise NotAllowed(f"port {port} is not allowed")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port, path, parts.netloc)


def resolve(host: str, port: int, policy: Policy) -> list[tuple[int, tuple[object, ...]]]:
    """Return (family, socket address) of the host, each of them allowed.

    A name of which one address isn't allowed isn't reached at all: it is a mistake or an attack.

    Raises:
        NotAllowed: that, or the name doesn't resolve.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        checked = [(family, sockaddr) for family, _, _, _, sockaddr in found]
        allowed = [policy.allows(ipaddress.ip_address(str(address[0]))) for _, address in checked]
    except (OSError, UnicodeError, ValueError):
        raise NotAllowed("the name does not resolve") from None
    if not checked or not all(allowed):
        raise NotAllowed("the address is not allowed")
    return list(checked)
