"""Published clients that cannot be installed here: their requests, as data, against the API.

Each file of `published/` is one client's, with where it was read. A request's `reads` are the
members of the answer without which that client stops.
"""

import io
import json
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from pypdf import PdfWriter

import offload
from carriers import transport
from carriers.outcomes import Announced, Document
from parcels.models import Brand, CarrierContract, Hold, Integration, SenderAddress
from parcels.representation import Question, final_answer
from parcels.selectors import in_order, waiting_announcements
from parcels.services import answering
from parcels.services.announce import announce
from parcels.statuses import Status
from parcels.tests.factories import PDF, LabelledParcelFactory, ParcelFactory
from parcels.tests.requests import Shop

pytestmark = pytest.mark.django_db
HERE = Path(__file__).parent / "published"
Ids = dict[str, int]


def all_requests() -> Iterator[Any]:
    for file in sorted(HERE.glob("*.json")):
        for request in json.loads(file.read_text())["requests"]:
            yield pytest.param(request, id=f"{file.stem}-{request['call']}")


def a_page() -> bytes:
    """Return a PDF that can be put on a sheet."""
    writer, output = PdfWriter(), io.BytesIO()
    writer.add_blank_page(297.64, 420.94)
    writer.write(output)
    return output.getvalue()


@pytest.fixture
def ids(shop: Shop) -> Ids:
    """Return the ids of a shop's things, by the names that stand for them in the data."""
    account = shop.account
    brand = Brand.objects.create(account=account, name="B", return_portal_url="https://r.example")
    sender = SenderAddress.objects.create(
        account=account, brand=brand, street="Kanaalweg", postal_code="1", city="U", country="NL"
    )
    rows = {
        "sender": sender,
        "contract": CarrierContract.objects.create(account=account, carrier="postnl"),
        "integration": Integration.objects.create(account=account, shop_name="Shop"),
        "stored": ParcelFactory.create(account=account, status=Status.NO_LABEL),
        "labelled": LabelledParcelFactory.create(
            account=account, sender_address=sender.pk, label=a_page()
        ),
    }
    return {name: row.pk for name, row in rows.items()}


@pytest.fixture
def carrier(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sell a label to each purchase, in this thread: a test's rows are in its transaction."""

    def sell(steps: Any, *_: Any, **__: Any) -> Announced:
        steps.close()
        return Announced("c-1", "3S1", (Document("label", "pdf", PDF),))

    def announce_all(announcement_ids: list[int]) -> None:
        for announcement_id in announcement_ids:
            announce(announcement_id)

    def wait(hold_id: int, _: float) -> HttpResponse:
        question = Question(**Hold.objects.get(pk=hold_id).question)
        announce_all([row.pk for row in waiting_announcements(question.parcels)])
        return final_answer(question, in_order(question.parcels))

    monkeypatch.setattr(transport, "perform", sell)
    monkeypatch.setattr(answering, "_announce_all", lambda _, ids: announce_all(ids))
    monkeypatch.setattr(offload, "wait", wait)


def filled(value: Any, ids: Ids) -> Any:
    """Put ids where their names stand; in a body as numbers."""
    if isinstance(value, dict):
        return {name: filled(inner, ids) for name, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, ids) for inner in value]
    if isinstance(value, str) and value.strip("{}") in ids:
        return ids[value.strip("{}")]
    return value


def member(value: Any, name: str) -> Any:
    return value[int(name)] if isinstance(value, list) else value[name]


@pytest.mark.parametrize("request_", list(all_requests()))
def test_it_is_answered_as_the_client_expects(
    shop: Shop, ids: Ids, carrier: None, request_: dict[str, Any]
) -> None:
    # Absolute: of a path with two slashes the test client would take the first word for a host.
    url = f"http://testserver{request_['path'].format(**ids)}"
    answer = Client().generic(
        request_["method"],
        f"{url}?{request_.get('query', '').format(**ids)}",
        data=json.dumps(filled(request_["body"], ids)).encode() if "body" in request_ else b"",
        headers=request_.get("headers", {}) | {"Authorization": shop.authorization},
        content_type=request_.get("headers", {}).get("Content-Type", ""),
    )
    assert answer.status_code == request_["status"], bytes(answer.content)[:500]
    assert answer["Cache-Control"] == "no-store"
    for path in request_.get("reads", []):
        reduce(member, path.split("."), answer.json())


def test_every_client_names_its_source() -> None:
    files = sorted(HERE.glob("*.json"))
    assert {json.loads(file.read_text())["language"] for file in files} == {"Go", "PHP"}
    for file in files:
        client = json.loads(file.read_text())
        assert client["source"].startswith("https://")
        assert len(client["commit"]) == 40


def test_the_requests_that_once_failed_are_among_them() -> None:
    text = "".join(file.read_text() for file in HERE.glob("*.json"))
    for needed in ("sender_address=all", "requestShipment", '"shipment": 10', '"insured_value": 2'):
        assert needed in text
