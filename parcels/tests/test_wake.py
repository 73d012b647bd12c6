"""Waking: best effort, and never at a client's expense."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
from celery import current_app

from carriers.redis_guard import RedisGuard
from parcels import metrics
from parcels.services import reconcile, void, wake, webhooks


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    wake._quiet_until, wake._away = 0.0, False
    wake._broker_at.cache_clear()
    yield
    wake._quiet_until, wake._away = 0.0, False
    wake._broker_at.cache_clear()


@pytest.mark.parametrize(
    ("task", "service"),
    [
        ("reconcile", reconcile.reconcile),
        ("void", void.void),
        ("spread_event", webhooks.spread),
        ("deliver", webhooks.deliver),
    ],
)
def test_a_message_names_its_service(task: str, service: Callable[..., object]) -> None:
    import_module("parcels.tasks")
    assert current_app.tasks[f"parcels.tasks.{task}"].run is service


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
    black_hole: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[Any] = []
    monkeypatch.setattr(current_app, "send_task", lambda *args, **_: published.append(args))
    settings.BROKER_URL = black_hole
    began = time.monotonic()
    assert [wake.send("announce", [number], "announce.postnl") for number in range(20)] == [
        False
    ] * 20
    # One time-out of 0.25 s for all of them; publishing alone would wait for five.
    assert time.monotonic() - began < 4
    assert published == []


def test_whatever_the_transport_raises_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def refuse(*_: Any, **__: Any) -> None:
        tried.append(1)
        raise RuntimeError("of a kind that nobody has listed")

    monkeypatch.setattr(RedisGuard, "ask", lambda *_: True)
    monkeypatch.setattr(current_app, "send_task", refuse)
    counted = metrics.GUARD_TROUBLE.labels("broker")
    before = counted._value.get()
    assert not wake.send("announce", [1], "announce.postnl")
    assert not wake.send("announce", [2], "announce.postnl")  # left alone for a while
    assert len(tried) == counted._value.get() - before == 1


def test_one_caller_looks_whether_a_broker_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would wait for the same time-out; beside the one that looks the others are not sent."""
    beside: list[bool] = []

    def silent(*_: Any, **__: Any) -> None:
        beside.append(wake.send("announce", [2], "announce.postnl"))
        raise TimeoutError

    def well(*_: Any, **__: Any) -> None:
        beside.append(True)

    monkeypatch.setattr(RedisGuard, "ask", lambda *_: True)
    monkeypatch.setattr(wake, "QUIET", 0.0)
    monkeypatch.setattr(wake, "_away", True)
    monkeypatch.setattr(current_app, "send_task", silent)
    assert not wake.send("announce", [1], "announce.postnl")
    assert beside == [False]
    monkeypatch.setattr(current_app, "send_task", well)
    assert [wake.send("announce", [number], "announce.postnl") for number in (3, 4)] == [True, True]
