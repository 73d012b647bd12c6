"""Back up, lose the database, restore: as docs/operations.md says it."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import requests

from deploy.stack import Stack
from deploy.tests.waiting import until

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(400)]

SECRETS = {"SECRET_KEY": "s" * 60, "OFFLOAD_SECRET": "o" * 60}
SHORT = {
    "SIMULATOR_LATENCY_TORTOISE": "0.2",
    "TIME_SCALE": "0.1",
    "WEB_WORKERS": "1",
    "WORKER_CONCURRENCY": "20",
}
PARCEL = {
    "name": "Ada Example",
    "address": "Havenstraat",
    "house_number": "12",
    "city": "Utrecht",
    "postal_code": "3511 AB",
    "country": "NL",
    "weight": "2.000",
}


class Shop:
    """An account's requests to a deployment."""

    def __init__(self, stack):
        self.api = f"{stack.base_url}/api/v2/parcels"
        self.session = requests.Session()
        self.session.trust_env = False

    def use(self, public_key, secret_key):
        self.session.auth = (public_key, secret_key)
        return self

    def create(self, **fields):
        answer = self.session.post(self.api, json={"parcel": {**PARCEL, **fields}}, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()["parcel"]

    def read(self, parcel):
        return self.session.get(f"{self.api}/{parcel['id']}", timeout=30).json()["parcel"]

    def has_label(self, parcel):
        return self.read(parcel)["status"]["id"] == 1000


def dump(server, database, target):
    """pg_dump in the custom format: what operations.md tells."""
    command = [str(server.programs / "pg_dump"), "--format=custom", server.url_of(database)]
    with target.open("wb") as file:
        subprocess.run(command, stdout=file, check=True, env={"PATH": os.environ["PATH"]})


def restore(server, source, database):
    url = server.create_database(database)
    command = [str(server.programs / "pg_restore"), "--exit-on-error", "--no-owner"]
    subprocess.run(
        [*command, f"--dbname={url}", str(source)], check=True, env={"PATH": os.environ["PATH"]}
    )
    return url


def bought(ledger, carrier):
    lines = [json.loads(line) for line in Path(ledger).read_text().splitlines()]
    return [line for line in lines if line["carrier"] == carrier and line["event"] == "booked"]


@pytest.mark.parametrize(
    ("after_restore", "purchases"),
    [(True, 1), (False, 2)],
    ids=["as told", "control: step left out"],
)
def test_a_restored_backup_buys_nothing_twice(after_restore, purchases, postgresql, tmp_path):
    """A label is bought after the backup; the restored rows know nothing of it."""
    before = postgresql.create_database("before_backup")
    with Stack("asgi-hold", database=before, env={**SECRETS, **SHORT}) as first:
        keys = (first.public_key, first.secret_key)
        shop = Shop(first).use(*keys)
        labelled = shop.create(request_label=True, shipment={"id": 8})
        first.stop("worker", "sweeper")
        waiting = shop.create(request_label_async=True, shipment={"id": 10})
        dump(postgresql, "before_backup", tmp_path / "parcels.dump")
        first.start("worker", "sweeper")
        until(lambda: shop.has_label(waiting), "the label that is bought after the backup")
        tracking = shop.read(waiting)["tracking_number"]
        first.stop("web", "worker", "sweeper")
        after = restore(postgresql, tmp_path / "parcels.dump", "after_restore")
        carriers = {name: url for name, url in first.env.items() if name.startswith("CARRIER_URL")}
        second = Stack(
            "asgi-hold",
            database=after,
            env={**SECRETS, **SHORT, **carriers, "SIMULATOR_URL": first.env["SIMULATOR_URL"]},
            processes=["redis", "web", "worker", "sweeper"],
            commands=["python manage.py migrate"]
            + ["python manage.py after_restore"] * after_restore,
        )
        with second:
            shop = Shop(second).use(*keys)
            assert shop.read(labelled)["tracking_number"] == labelled["tracking_number"]
            label = shop.session.get(f"{shop.api}/{labelled['id']}/documents/label", timeout=30)
            assert label.content.startswith(b"%PDF")
            until(lambda: shop.has_label(waiting), "the waiting one's label", 60)
            same = shop.read(waiting)["tracking_number"] == tracking
        assert len(bought(first.env["SIMULATOR_LEDGER"], "tortoise")) == purchases
        assert same is after_restore
