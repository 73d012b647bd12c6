"""Published clients of the dialect, unchanged but for their base address, against a whole stack.

One in Python, one in JavaScript. Those that cannot be installed: `test_published_requests.py`.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import sendcloud
from sendcloud.http.exceptions import ParcelNotFound

from deploy.stack import Stack
from deploy.tests.fixtures import absent
from parcels.tests.requests import body

pytestmark = pytest.mark.deployment
JAVASCRIPT = Path(__file__).parent / "javascript"
Call = Callable[..., Any]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack("runserver", env={"SIMULATOR_TRACKING_STEP": "0"}) as stack:
        yield stack


@pytest.fixture
def client(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the client's module with our address and keys: all that a shop changes."""
    monkeypatch.setattr(sendcloud, "BASE_URL", f"{stack.base_url}/api/v2/")
    monkeypatch.setattr(sendcloud, "API_KEY", stack.public_key, raising=False)
    monkeypatch.setattr(sendcloud, "API_SECRET", stack.secret_key, raising=False)
    return sendcloud


def labelled(client: Any, **changes: Any) -> dict[str, Any]:
    order = body(shipment={"id": 8}, request_label=True, **changes)
    answer = client.Parcels().create_parcel({"parcel": order})
    parcel: dict[str, Any] = answer["parcel"]
    return parcel


def until_status(client: Any, parcel_id: int, status: int) -> dict[str, Any]:
    """Poll as the client's users do, for 20 s at most."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        parcel: dict[str, Any] = client.Parcels().get_parcel(parcel_id)["parcel"]
        if parcel["status"]["id"] == status:
            return parcel
        time.sleep(0.1)
    raise AssertionError(f"still {parcel['status']}")


def test_a_label_is_bought_shown_and_printed(client: Any, stack: Stack) -> None:
    created = labelled(client, order_number="C-1")
    assert created["status"] == {"id": 1000, "message": "Ready to send"}
    shown = client.Parcels().get_parcel(created["id"])["parcel"]
    assert shown["tracking_number"] == created["tracking_number"]
    links = client.Labels().get_labels(created["id"])["label"]
    assert links == shown["label"]
    bulk = client.Labels().bulk_pdf_label_printing({"label": {"parcels": [created["id"]]}})
    for link in (links["label_printer"], *links["normal_printer"], bulk["label"]["label_printer"]):
        document = requests.get(link, auth=(stack.public_key, stack.secret_key), timeout=10)
        assert document.content.startswith(b"%PDF")


def test_parcels_are_listed_and_filtered(client: Any) -> None:
    created = labelled(client, order_number="C-2")
    assert created["id"] in [parcel["id"] for parcel in client.Parcels().get_parcels()["parcels"]]
    found = client.Parcels().get_parcels({"order_number": "C-2", "parcel_status": 1000})
    assert [parcel["id"] for parcel in found["parcels"]] == [created["id"]]


def test_a_bought_label_is_cancelled_at_the_carrier(client: Any) -> None:
    created = labelled(client)
    answer = client.Parcels().cancel_parcel(created["id"])
    assert answer["status"] == "queued"
    until_status(client, created["id"], 2000)
    assert client.Parcels().cancel_parcel(created["id"])["status"] == "failed"


def test_a_parcel_without_label_is_cancelled_at_once(client: Any) -> None:
    parcel = client.Parcels().create_parcel({"parcel": body()})["parcel"]
    assert client.Parcels().cancel_parcel(parcel["id"])["status"] == "cancelled"
    with pytest.raises(ParcelNotFound):
        client.Parcels().get_parcel(parcel["id"])


def test_several_and_asynchronous(client: Any) -> None:
    orders = [body(shipment=8, request_label_async=True, name=f"R{n}") for n in range(3)]
    made = client.Parcels().create_parcel({"parcels": orders})["parcels"]
    assert [parcel["name"] for parcel in made] == ["R0", "R1", "R2"]
    for parcel in made:
        assert until_status(client, parcel["id"], 1000)["tracking_number"]


def test_its_form_encoded_put_is_an_error_it_can_read(client: Any) -> None:
    answer = client.Parcels().update_parcel({"parcel": {"id": 1}})
    assert answer["error"]["code"] == 400


def test_mistakes_come_in_the_dialect_s_shape(client: Any) -> None:
    answer = client.Parcels().create_parcel({"parcel": body(name="")})
    assert answer["error"] == {
        "code": 400,
        "request": "api/v2/parcels",
        "message": "name: 'This field cannot be blank.'",
    }


def test_everything_else_it_asks_for(client: Any) -> None:
    assert client.Users().get_current_user()["user"]["username"] == "Demo Shop"
    assert client.SenderAddress().get_sender_addresses()["sender_addresses"][0]["city"]
    assert client.Brands().get_brands()["brands"]
    assert client.IntegrationsAndOrders().get_integrations()[0]["system"] == "api"
    methods = client.ShippingMethods().get_shipping_methods()["shipping_methods"]
    assert client.ShippingMethods().get_shipping_method(8)["shipping_method"] in methods
    assert {"id": 1000, "message": "Ready to send"} in client.Parcels().get_parcels_statuses()
    parcel = labelled(client)
    assert client.Parcels().return_portal_url(parcel["id"])["url"].startswith("https://")


def test_tracking_follows_the_carrier(client: Any, stack: Stack) -> None:
    parcel = labelled(client)
    control = stack.env["SIMULATOR_URL"]
    number = parcel["tracking_number"]
    requests.post(f"{control}/tracking/{number}/advance", timeout=10).raise_for_status()
    until_status(client, parcel["id"], 22)
    shown = requests.get(
        f"{stack.base_url}/api/v2/tracking/{number}",
        auth=(stack.public_key, stack.secret_key),
        timeout=10,
    ).json()
    assert shown["statuses"][0]["parent_status"] == "shipment-picked-up-by-driver"
    # The shop's customer has no password.
    assert "Shipment picked up" in requests.get(parcel["tracking_url"], timeout=10).text
    # What is on its way can't be voided: the carrier says no.
    client.Parcels().cancel_parcel(parcel["id"])
    until_status(client, parcel["id"], 94)


@pytest.fixture
def call(stack: Stack, packages: None) -> Call:
    """Return a call of the client in JavaScript: its group, the method, and what it takes."""
    environment = {
        "PATH": os.environ["PATH"],
        "API": f"{stack.base_url}/api/v2/",
        "PUBLIC_KEY": stack.public_key,
        "SECRET_KEY": stack.secret_key,
    }

    def make(group: str, method: str, *values: Any) -> Any:
        done = subprocess.run(
            ["node", "call.js", json.dumps([group, method, values])],
            cwd=JAVASCRIPT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return make


@pytest.fixture(scope="module")
def packages() -> None:
    """Install what package-lock.json names, once."""
    if not shutil.which("npm"):
        absent("npm", "apt-get install nodejs npm")
    if (JAVASCRIPT / "node_modules").exists():
        return
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=JAVASCRIPT, capture_output=True, timeout=120, check=False)
    if done.returncode:  # not a component of the machine: its registry may be out of reach
        pytest.skip(f"{' '.join(command)} in {JAVASCRIPT} failed: {done.stderr.decode()[-300:]}")


def test_in_javascript_a_label_is_bought_shown_and_cancelled(call: Call) -> None:
    order = body(shipment={"id": 8}, request_label=True, order_number="J-1")
    made = call("parcels", "createParcel", {"parcel": order})["parcel"]
    assert made["status"]["id"] == 1000
    assert call("parcels", "getParcel", made["id"])["parcel"]["id"] == made["id"]
    listed = call("parcels", "getParcels", {"order_number": "J-1"})["parcels"]
    assert [parcel["id"] for parcel in listed] == [made["id"]]
    assert call("labels", "getLabels", made["id"])["label"] == made["label"]
    assert call("labels", "labelsBulk", [made["id"]])["label"]["label_printer"]
    assert call("parcels", "parcelDocument", made["id"], "label", {"format": "zpl"})[:3] == "^XA"
    assert call("parcels", "returnPortalUrl", made["id"])["url"].startswith("https://")
    assert call("parcels", "cancelParcel", made["id"])["status"] == "queued"


def test_in_javascript_the_shop_is_shown(call: Call) -> None:
    methods = call("shipping", "getShippingMethods", {"sender_address": "all"})["shipping_methods"]
    assert call("shipping", "getShippingMethod", 8)["shipping_method"] in methods
    assert call("user", "getUser")["user"]["username"] == "Demo Shop"
    sender = call("user", "senderAddresses")["sender_addresses"][0]
    assert call("user", "senderAddress", sender["id"]) == {"sender_address": sender}
    assert call("brands", "getBrands")["brands"]
    assert call("integrations", "getIntegrations")[0]["system"] == "api"
    assert {"id": 1000, "message": "Ready to send"} in call("parcels", "parcelStatuses")


def test_in_javascript_mistakes_are_errors_that_it_can_read(call: Call) -> None:
    answer = call("parcels", "createParcel", {"parcel": body(name="")})
    assert answer["status"] == 400
    assert answer["data"]["error"]["message"] == "name: 'This field cannot be blank.'"
    # It sends neither keys nor JSON of the dialect here: no server can answer it otherwise.
    assert call("integrations", "updateIntegrations", 1, {})["status"] == 401
