"""A database that accepts and answers nothing: worker and sweeper go on when it is back."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from deploy.stack import Stack
from deploy.stores import PostgresServer
from deploy.tests.waiting import until
from parcels.tests.requests import body
from parcels.tests.stacks import SHORT, Site
from shipping.tests.black_hole import Proxy

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(240)]

# Seconds: longer than the shipped bound of a statement (10 s, and two for the client's).
SILENCE = 15
# Seconds from its end until everything works.
BACK = 30


@pytest.fixture
def proxy(postgresql: PostgresServer) -> Iterator[Proxy]:
    with Proxy(postgresql.port) as proxy:
        yield proxy


@pytest.fixture
def site(postgresql: PostgresServer, proxy: Proxy) -> Iterator[Site]:
    url = postgresql.create_database("silent").replace(f":{postgresql.port}/", f":{proxy.port}/")
    with Stack("cheroot", database=url, env=SHORT) as stack:
        yield Site(stack)


def test_worker_and_sweeper_outlive_a_silent_database(site: Site, proxy: Proxy) -> None:
    site.wait_for_status(post(site), 1000)
    processes = {name: site.stack.pid(name) for name in ("worker", "sweeper")}
    proxy.swallow()
    with pytest.raises(requests.RequestException):
        post(site, patience=SILENCE)
    back = time.time()
    proxy.forget()
    until(lambda: accepts(site), "an accepted order", BACK)
    site.wait_for_status(post(site), 1000, back + BACK - time.time())
    ready = Path(site.stack.env["RUN_DIR"]) / "sweeper.ready"
    left = back + BACK - time.time()
    until(lambda: ready.stat().st_mtime > back, "a good round of the sweeper", left)
    assert processes == {name: site.stack.pid(name) for name in processes}


def post(site: Site, patience: float = 30) -> int:
    """Create a parcel whose label is bought meanwhile; return its id."""
    answer = site.session.post(
        f"{site.api}/parcels",
        json={"parcel": body(shipment={"id": 10}, request_label=True)},
        headers={"Prefer": "respond-async"},
        timeout=patience,
    )
    answer.raise_for_status()
    return int(answer.json()["parcel"]["id"])


def accepts(site: Site) -> bool:
    try:
        return bool(post(site))
    except requests.RequestException:
        return False
