"""The address that a request comes from, also behind proxies."""

import re
from ipaddress import IPv6Address, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest

_WITH_PORT = re.compile(r"(?:\[(.+)\]|([\d.]+))(?::\d{1,5})?")
# How TRUSTED_PROXIES names a proxy that comes by a Unix socket: it has no address.
UNIX = "unix"


def client_address(request: HttpRequest) -> str:
    """Return the last address that a proxy of ours has seen; empty where there is none.

    Each proxy adds its client to the right end of X-Forwarded-For, so it is read from there, and
    only as far as trusted proxies have written it: everything to the left of that is the client's
    own claim.
    """
    address = plain(request.META.get("REMOTE_ADDR", ""))
    for hop in reversed(request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")):
        if not is_trusted(address) or not (before := plain(hop)):
            break
        address = before
    return address


def client_network(request: HttpRequest) -> str:
    """Return what a limit by address counts by: an IPv6 client has 2^64 addresses of its own."""
    address = client_address(request)
    return str(ip_network(f"{address}/64", strict=False)) if ":" in address else address


def plain(text: str) -> str:
    """Return an address in its one form, IPv4 also where a socket maps it; empty if it is none.

    Some balancers write a port behind it, and IPv6 in brackets.
    """
    try:
        host = _WITH_PORT.fullmatch(text.strip())
        address = ip_address((host[1] or host[2]) if host else text.strip())
    except ValueError:
        return ""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    # A zone ("%eth0") is the peer's own text.
    return str(mapped or address).partition("%")[0]


def is_trusted(address: str) -> bool:
    """Tell whether a proxy of ours has this address."""
    if not address:
        return UNIX in settings.TRUSTED_PROXIES
    return any(
        ip_address(address) in ip_network(network)
        for network in settings.TRUSTED_PROXIES
        if network != UNIX
    )
