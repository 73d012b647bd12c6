"""Webhooks that hang: receivers that take a request and never answer."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from deploy.loopback import ask_json

# Connections that the kernel takes in by itself: nobody ever accepts one.
BACKLOG = 4096


@contextmanager
def hanging(base_url: str, login: str, count: int) -> Iterator[None]:
    """Register so many for an account; the address is there until the end."""
    with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as server:
        for number in range(count):
            url = f"http://127.0.0.1:{server.getsockname()[1]}/{number}"
            ask_json(f"{base_url}/api/v2/webhooks", {"webhook": {"url": url}}, login=login)
        yield
