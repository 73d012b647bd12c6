"""The client that a process's threads share."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest

from offload import redis_clients
from offload.redis_clients import sync_client

THREADS = 4


def test_threads_that_come_first_at_once_get_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one would be forgotten at once, and close its connections while they are in use."""
    together, made = threading.Barrier(THREADS), []

    def slowly(url: str) -> object:
        time.sleep(0.1)
        made.append(sync_client(url))
        return made[-1]

    def first(_: int) -> object:
        together.wait()
        return redis_clients.shared_client("redis://127.0.0.1:1/7")  # no other test's

    monkeypatch.setattr(redis_clients, "_created_once", cache(slowly))
    with ThreadPoolExecutor(THREADS) as threads:
        clients = set(threads.map(first, range(THREADS)))
    assert len(made) == len(clients) == 1
