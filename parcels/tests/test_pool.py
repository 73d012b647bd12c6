"""Whoever waits for a carrier holds no database connection: a small pool serves many who wait."""

import base64
import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from deploy.stack import Stack
from deploy.stores import POSTGRESQL_INSTALL, StoreMissingError, postgresql_programs
from deploy.strategy import load, why_unavailable
from deploy.tests.fixtures import absent
from deploy.welcome import ADDRESS

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(120)]

CLIENTS = 24
ENVIRONMENT = {
    "DATABASE_POOL": "2",
    "WEB_WORKERS": "1",
    "WEB_THREADS": "40",
    "SIMULATOR_LATENCY_TORTOISE": "2",
}


@pytest.fixture(params=["cheroot", "uvicorn-threads", "uvicorn-async", "asgi-hold"])
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    """One web process of each way to wait, with two connections for all of its clients."""
    strategy = load(request.param)
    if reason := why_unavailable(strategy):
        absent(strategy.name, reason)
    try:
        postgresql_programs()
    except StoreMissingError:
        absent("postgresql", POSTGRESQL_INSTALL)
    with Stack(strategy, database="postgresql", env=ENVIRONMENT) as stack:
        yield stack


def ask(stack: Stack) -> tuple[int, int]:
    """Ask for a label that takes two seconds; return the HTTP and the parcel's status."""
    login = base64.b64encode(f"{stack.public_key}:{stack.secret_key}".encode()).decode()
    parcel = {**ADDRESS, "shipment": {"id": 10}, "request_label": True}
    request = urllib.request.Request(  # our own loopback
        f"{stack.base_url}/api/v2/parcels",
        json.dumps({"parcel": parcel}).encode(),
        {"Authorization": f"Basic {login}", "Content-Type": "application/json"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=90) as answer:
            return answer.status, json.loads(answer.read())["parcel"]["status"]["id"]
    except urllib.error.HTTPError as error:
        return error.code, 0


def test_many_wait_with_two_connections(stack: Stack) -> None:
    with ThreadPoolExecutor(CLIENTS) as clients:
        answers = Counter(clients.map(lambda _: ask(stack), range(CLIENTS)))
    assert answers == {(200, 1000): CLIENTS}
