"""Receivers that hang: registered for the account that is given, and silent."""

import socket
from urllib.parse import urlsplit

import pytest

from loadtests import deployment

pytestmark = pytest.mark.integration


def test_they_take_a_request_and_never_answer(monkeypatch):
    registered = []
    monkeypatch.setattr(
        deployment, "ask_json", lambda url, body, login: registered.append((url, body, login))
    )
    with deployment.hanging("http://app", "a:b", 3):
        assert [entry[::2] for entry in registered] == [("http://app/api/v2/webhooks", "a:b")] * 3
        urls = [body["webhook"]["url"] for _, body, _ in registered]
        assert len(set(urls)) == 3
        address = urlsplit(urls[0])
        with socket.create_connection((address.hostname, address.port), timeout=0.2) as wire:
            wire.sendall(b"POST /0 HTTP/1.1\r\n\r\n")
            with pytest.raises(TimeoutError):
                wire.recv(1)
