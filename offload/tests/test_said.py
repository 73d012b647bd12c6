"""What the logs say of trouble: where, since when no more, and without any password."""

import asyncio
import logging
import time

import pytest
from django.http import HttpResponse

import offload
from offload import store
from offload.counting import REDIS_UP, Counts
from offload.hub_app import Hub
from offload.redis_clients import address
from offload.tests import releases
from offload.tests.processes import SECRET, eventually
from offload.waiting import Waiters

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("rediss://me:pass@cache.example:1/2", "rediss://cache.example:1/2"),
        ("redis://:p%40ss@cache/0?password=x", "redis://cache/0"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
        ("postgresql://me:pa/ss@db:5432/x", "postgresql://db:5432/x"),
        ("postgresql://me:p@/ss@db/x?sslmode=require", "postgresql://db/x"),
        ("postgresql://me:pa?ss@db/x", "postgresql://…"),
        ("redis://cache/0?password=p@ss", "redis://…"),
    ],
)
def test_an_address_without_its_password(url, expected):
    assert address(url) == expected


def test_a_release_names_the_address_and_says_when_it_is_over(
    offload_settings, redis_server, hold_id, caplog
):
    offload_settings(REDIS_URL=redis_server.url)
    redis_server.kill()
    assert offload.release(hold_id, HttpResponse()) is False
    assert f"127.0.0.1:{redis_server.port}" in caplog.text
    assert "Connection refused" in caplog.text
    redis_server.start()
    store._paused_until = time.monotonic()
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="offload"):
        assert offload.release(hold_id, HttpResponse()) is True
        assert offload.release(hold_id, HttpResponse()) is True
    assert [record.getMessage() for record in caplog.records] == [
        f"redis://127.0.0.1:{redis_server.port}/0 answers again"
    ]


async def test_waiters_do_so_too(redis_server, caplog, monkeypatch):
    monkeypatch.setattr("offload.doubts.DOUBT", 1.0)
    caplog.set_level(logging.INFO, logger="offload")
    waiters = Waiters(redis_server.url, resolve=None, counts=Counts())
    waiters.start()
    await eventually(lambda: waiters.counts.own[REDIS_UP])
    assert caplog.text == ""
    redis_server.kill()
    await eventually(lambda: f"127.0.0.1:{redis_server.port}" in caplog.text)
    assert "Connect call failed" in caplog.text or "closed by server" in caplog.text
    redis_server.start()
    await eventually(lambda: "answers again" in caplog.text)
    await waiters.stop()


async def knock(hub, text):
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "path": f"/_offload/hold/{text}", "headers": []}
    await hub(scope, asyncio.Event().wait, send)
    return sent[0]["status"]


async def test_a_hub_with_another_secret_says_so_once(hold_id, caplog):
    hub = Hub(Waiters("redis://127.0.0.1:9/0"), secret="t" * 40)
    for _ in range(3):
        assert await knock(hub, releases.ticket(hold_id, secret=SECRET)) == 404
    (record,) = caplog.records
    assert "OFFLOAD_SECRET" in record.getMessage()
    assert SECRET not in record.getMessage()


async def test_a_hub_with_another_store_says_so_once(redis_server, hold_id, caplog):
    hub = Hub(Waiters(redis_server.url), secret=SECRET)
    stored = releases.ticket(hold_id, wait=0.1, redis_client=redis_server.client)
    assert await knock(hub, stored) == 202
    assert await knock(hub, releases.ticket(hold_id, wait=-31)) == 202  # no longer in any store
    assert caplog.text == ""
    for _ in range(2):
        assert await knock(hub, releases.ticket(hold_id, wait=-20)) == 202
    await hub.waiters.stop()
    (record,) = caplog.records
    assert "late answer" in record.getMessage()
    assert f"127.0.0.1:{redis_server.port}" in record.getMessage()
