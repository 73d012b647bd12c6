"""Personal data in a real deployment: in no log, no message, no metric; in Redis only as an answer
that a client is waiting for, and with an end.

Unique words stand in every personal field. All that Redis is told meanwhile is listened to.
"""

import base64
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
import requests

from deploy.stack import Stack
from parcels.tests.requests import body

pytestmark = pytest.mark.deployment

FIELDS = (
    "name",
    "company_name",
    "address",
    "address_2",
    "city",
    "telephone",
    "email",
    "postal_code",
)
CANARY = re.compile(rb"canary", re.IGNORECASE)
# A message's arguments are base64 inside JSON inside the listener's quotes.
BODY = re.compile(rb"body\W+([A-Za-z0-9+/=]{8,})")


def parcel(kind: str, **more: Any) -> dict[str, Any]:
    """Return a parcel whose every personal field has the word in it."""
    marked = {field: f"Canary{kind}{field}" for field in FIELDS}
    return {"parcel": body(**marked, shipment={"id": 8}, **more)}


class Listener:
    """Hears every command that Redis gets."""

    def __init__(self, client: redis.Redis) -> None:
        self.heard: list[bytes] = []
        self._client = client
        self._stop = threading.Event()

    def run(self, started: threading.Event) -> None:
        with self._client.monitor() as monitor:
            started.set()
            for command in monitor.listen():
                self.heard.append(str(command["command"]).encode())
                if self._stop.is_set():
                    return

    def end(self) -> None:
        self._stop.set()
        self._client.ping()  # one more command, so that the listener looks


@contextmanager
def listening(url: str) -> Iterator[Listener]:
    listener = Listener(redis.Redis.from_url(url))
    started = threading.Event()
    thread = threading.Thread(target=listener.run, args=(started,))
    thread.start()
    assert started.wait(10)
    try:
        yield listener
    finally:
        listener.end()
        thread.join(10)


def ended(stack: Stack, parcel_id: int) -> dict[str, Any]:
    """Return the parcel when its announcement has ended."""
    keys = (stack.public_key, stack.secret_key)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        answer = requests.get(
            f"{stack.base_url}/api/v2/parcels/{parcel_id}?wait=5", auth=keys, timeout=30
        ).json()["parcel"]
        if answer["status"]["id"] != 1001:
            return answer
    raise AssertionError("the announcement has not ended")


def test_personal_data_stays_where_it_belongs() -> None:
    with Stack("asgi-hold", env={"LOG_LEVEL": "INFO", "LOG_FORMAT": "json"}) as stack:
        url, keys = f"{stack.base_url}/api/v2/parcels", (stack.public_key, stack.secret_key)
        with listening(stack.env["REDIS_URL"]) as listener:
            held = requests.post(
                url, json=parcel("Sync", request_label=True), auth=keys, timeout=90
            )
            queued = requests.post(
                url, json=parcel("Async", request_label_async=True), auth=keys, timeout=30
            )
            refused = requests.post(
                url, json=parcel("Bad", request_label=True, weight="900"), auth=keys, timeout=30
            )
            assert (held.status_code, queued.status_code, refused.status_code) == (200, 200, 400)
            assert held.json()["parcel"]["name"] == "CanarySyncname"
            ended(stack, queued.json()["parcel"]["id"])
            check_what_redis_keeps(redis.Redis.from_url(stack.env["REDIS_URL"]))
        metrics = requests.get(f"{stack.base_url}/metrics", timeout=10)
        assert metrics.status_code == 200
        assert "http_requests_total" in metrics.text
        assert not CANARY.search(metrics.content)
        logs = {name: stack.log(name) for name in stack.names}
    check_commands(listener.heard)
    assert '"event": "answered"' in logs["web"]  # the control: there is something to search
    for name, text in logs.items():
        assert not CANARY.search(text.encode()), name


def check_commands(heard: list[bytes]) -> None:
    """Only a held answer may carry the word; Celery's messages were heard, and don't."""
    assert any(b"parcels.tasks.announce" in command for command in heard)
    bodies = [base64.b64decode(body) for command in heard for body in BODY.findall(command)]
    assert any(re.match(rb"\[\[\d+\], \{\}", body) for body in bodies), bodies[:3]
    assert not any(CANARY.search(body) for body in bodies)
    marked = [command for command in heard if CANARY.search(command)]
    assert marked, "the control: the held answer went through Redis"
    for command in marked:
        assert b"offload:" in command, command[:200]


def check_what_redis_keeps(client: redis.Redis) -> None:
    """Whatever holds the word has an end, and is one of offload's."""
    for key in client.scan_iter("*"):
        try:
            value = client.dump(key) or b""
        except redis.RedisError:
            continue
        if CANARY.search(value) or CANARY.search(key):
            assert key.startswith(b"offload:"), key
            assert 0 < client.ttl(key) <= 600, key
