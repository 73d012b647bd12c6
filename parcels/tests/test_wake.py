"""Waking: best effort, and never at a client's expense."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from celery import current_app

from parcels.services import broker, wake


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    wake._quiet_until = 0.0
    broker._broker_at.cache_clear()
    yield
    wake._quiet_until = 0.0
    broker._broker_at.cache_clear()


@pytest.fixture
def black_hole() -> Iterator[str]:
    """Return the address of a broker that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept: list[socket.socket] = []

        def take() -> None:
            try:
                while True:
                    kept.append(server.accept()[0])
            except OSError:
                return

        threading.Thread(target=take, daemon=True).start()
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"
        for connection in kept:
            connection.close()


@pytest.mark.integration
def test_a_broker_that_never_answers_costs_one_short_time_out(
    black_hole: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[Any] = []
    monkeypatch.setattr(current_app, "send_task", lambda *args, **_: published.append(args))
    monkeypatch.setattr(current_app.conf, "broker_url", black_hole)
    began = time.monotonic()
    assert [wake.wake("announce", [number], "postnl") for number in range(20)] == [False] * 20
    # One time-out of 0.25 s for all of them; publishing alone would wait for five.
    assert time.monotonic() - began < 4
    assert published == []


def test_whatever_the_transport_raises_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def refuse(*_: Any, **__: Any) -> None:
        tried.append(1)
        raise RuntimeError("of a kind that nobody has listed")

    monkeypatch.setattr(broker, "takes", lambda *_: True)
    monkeypatch.setattr(current_app, "send_task", refuse)
    assert not wake.wake("announce", [1], "postnl")
    assert not wake.wake("announce", [2], "postnl")  # left alone for a while
    assert len(tried) == 1
