"""Black box: each strategy gives a shop its label, in one request and by polling."""

import base64
import json
import time
import urllib.request

import pytest

from deploy.fixtures import absent
from deploy.stack import Stack
from deploy.strategy import load, names, why_unavailable
from deploy.tests.waiting import DIRECT
from deploy.welcome import ADDRESS

pytestmark = pytest.mark.deployment


@pytest.fixture(scope="module", params=names())
def stack(request):
    strategy = load(request.param)
    if reason := why_unavailable(strategy):
        absent(strategy.name, reason)
    with Stack(strategy) as stack:
        yield stack


def ask(stack, path, body=None):
    login = base64.b64encode(f"{stack.public_key}:{stack.secret_key}".encode()).decode()
    headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    url = path if path.startswith("http") else f"{stack.base_url}/api/v2/{path}"
    with DIRECT.open(urllib.request.Request(url, data, headers), timeout=60) as answer:
        return answer.status, answer.read()


def announce(stack, **wishes):
    status, body = ask(stack, "parcels", {"parcel": {**ADDRESS, "shipment": {"id": 8}, **wishes}})
    assert status == 200
    return json.loads(body)["parcel"]


def test_a_label_in_the_answer(stack):
    parcel = announce(stack, request_label=True)
    assert parcel["status"]["id"] == 1000
    assert ask(stack, parcel["label"]["label_printer"])[1].startswith(b"%PDF-")


def test_a_label_by_polling(stack):
    parcel = announce(stack, request_label_async=True)
    end = time.monotonic() + 30
    while parcel["status"]["id"] in {999, 1001}:
        assert time.monotonic() < end
        time.sleep(0.2)
        parcel = json.loads(ask(stack, f"parcels/{parcel['id']}")[1])["parcel"]
    assert parcel["status"]["id"] == 1000
    assert ask(stack, f"parcels/{parcel['id']}/documents/label")[1].startswith(b"%PDF-")
