"""The parcel that the API's page shows is one that the API gives."""

import json

import pytest
from jsonschema import Draft202012Validator

from carriers import transport
from carriers.outcomes import Announced, Document
from parcels.models import Announcement
from parcels.openapi.document import document
from parcels.openapi.tests.test_document import README_BODY
from parcels.services.announce import announce
from parcels.tests.factories import PDF, AccountFactory
from parcels.tests.requests import Shop


@pytest.mark.django_db(transaction=True)
def test_the_shown_parcel_is_what_the_readmes_body_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for what differs each time: ids, dates, and what the carrier gives."""
    sold = Announced("c-1", "3SYZAB0123456789", (Document("label", "pdf", PDF),))
    monkeypatch.setattr(transport, "perform", lambda steps, *_, **__: steps.close() or sold)
    shop = Shop(AccountFactory.create())
    wanted = README_BODY["parcel"] | {"request_label": False, "request_label_async": True}
    made = shop.post("parcels", {"parcel": wanted}).json()["parcel"]["id"]
    announce(Announcement.objects.get().pk)
    got = shop.get(f"parcels/{made}").json()["parcel"]
    schemas = document()["components"]["schemas"]
    shown = schemas["Parcel"]["example"]
    Draft202012Validator(schemas["Parcel"] | {"components": {"schemas": schemas}}).validate(shown)
    each_time = {"id", "colli_uuid", "date_created", "date_updated", "date_announced"}
    texts = [
        json.dumps({key: value for key, value in one.items() if key not in each_time})
        .replace(one["tracking_url"], "URL")
        .replace("http://127.0.0.1:8000", "http://testserver")
        .replace(f"/{one['id']}", "/ID")
        for one in (shown, got)
    ]
    assert json.loads(texts[0]) == json.loads(texts[1])
