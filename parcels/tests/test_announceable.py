"""What a method can't do is refused before it is announced, by field."""

from typing import Any

import pytest

from carriers import registry
from parcels.models import Account, Announcement, Parcel, SenderAddress
from parcels.tests.requests import Shop, body

pytestmark = pytest.mark.django_db
ANNOUNCED = {"request_label_async": True, "shipment": {"id": 8}}
ITEM = {
    "description": "Book",
    "quantity": 2,
    "value": "6.50",
    "weight": "0.400",
    "hs_code": "490199",
    "origin_country": "NL",
}
SIZE = {"length": "60", "width": "40", "height": "30"}
ABROAD = {"country": "CH"}
GIFT = {"customs_shipment_type": 0}
RETURN = {
    "is_return": True,
    "from_name": "Ada",
    "from_address_1": "Ginza",
    "from_house_number": "1",
    "from_city": "Tokyo",
    "from_postal_code": "104-0061",
}


def without(*names: str) -> dict[str, Any]:
    return {name: value for name, value in ITEM.items() if name not in names}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"insured_value": 100}, "insured_value"),
        ({"total_insured_value": 100}, "insured_value"),
        ({"to_service_point": 17}, "to_service_point"),
        ({"to_post_number": "940621"}, "to_post_number"),
        (SIZE | {"length": "200.01"}, "length"),
        (SIZE | {"height": "201"}, "height"),
        # 199 + 2 * (40 + 30) is more than three metres
        (SIZE | {"length": "199"}, "length"),
        ({"weight": "31.001"}, "weight"),
        ({"weight": "0.0004"}, "weight"),
        ({"country": "JP"}, "country"),
        ({"shipment": 8.5}, "shipment"),
        ({"shipment": True}, "shipment"),
        (ABROAD, "parcel_items"),
        (ABROAD | {"parcel_items": []}, "parcel_items"),
        (ABROAD | {"parcel_items": [ITEM, {}]}, "parcel_items"),
        (ABROAD | {"parcel_items": [without("description")]}, "description"),
        (ABROAD | {"parcel_items": [without("value")]}, "value"),
        (ABROAD | {"parcel_items": [without("weight")]}, "weight"),
        (ABROAD | {"parcel_items": [ITEM | {"weight": 0}]}, "weight"),
        (ABROAD | {"parcel_items": [ITEM | {"weight": "-0"}]}, "weight"),
        (ABROAD | {"parcel_items": [without("hs_code")]}, "hs_code"),
        (ABROAD | {"parcel_items": [without("origin_country")]}, "origin_country"),
        (ABROAD | GIFT | {"parcel_items": [without("value")]}, "value"),
    ],
)
def test_it_is_a_400_that_names_the_field(shop: Shop, fields: dict[str, Any], named: str) -> None:
    answer = shop.post("parcels", {"parcel": body(**ANNOUNCED | fields)})
    assert answer.status_code == 400, answer.content
    assert named in answer.json()["error"]["message"]
    assert not Announcement.objects.exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"insured_value": 0},
        SIZE,
        # 200 + 2 * (25 + 25), exactly three metres
        {"length": "25", "width": "25", "height": "200"},
        {"weight": "31.000"},
        ABROAD | {"parcel_items": [ITEM]},
        ABROAD | GIFT | {"parcel_items": [without("hs_code", "origin_country")]},
        # Nothing for a customs officer to see inside the union.
        {"parcel_items": [{}]},
    ],
)
def test_what_it_can_do_is_announced(shop: Shop, fields: dict[str, Any]) -> None:
    assert shop.post("parcels", {"parcel": body(**ANNOUNCED | fields)}).status_code == 200
    assert Announcement.objects.count() == 1


@pytest.mark.parametrize("how", ["named", "default", "by country"])
def test_a_method_is_refused_where_its_list_offers_none(shop: Shop, how: str) -> None:
    address = SenderAddress.objects.create(account=shop.account, street="Ginza", country="JP")
    if how == "by country":
        Account.objects.update(sender_address=None)
    offered = shop.get(f"shipping_methods?sender_address={address.pk}").json()
    assert offered["shipping_methods"] == []
    said: dict[str, Any] = {"named": {"sender_address": address.pk}}
    said |= {"default": {}, "by country": {"from_country": "JP"}}
    answer = shop.post("parcels", {"parcel": body(**ANNOUNCED, **said[how])})
    assert answer.status_code == 400, answer.content
    assert answer.json()["error"]["message"].startswith("sender_address: ")
    if how == "by country":
        answer = shop.post("parcels", {"parcel": body(**ANNOUNCED, **said[how], **RETURN)})
        assert answer.json()["error"]["message"].startswith("from_country: ")
    assert not Announcement.objects.exists()


def test_it_can_be_stored_and_is_refused_when_announced(shop: Shop) -> None:
    """Such a parcel is kept as the shop sent it: only its announcement is refused."""
    made = shop.post("parcels", {"parcel": body(insured_value=2000, to_service_point=17)})
    stored = made.json()["parcel"]
    assert (stored["insured_value"], stored["to_service_point"]) == (2000, 17)
    change = {"parcel": {"id": stored["id"], **ANNOUNCED}}
    assert "insured_value" in shop.put("parcels", change).json()["error"]["message"]
    assert shop.put("parcels", {"parcel": {"id": stored["id"], "city": "Delft"}}).status_code == 200
    assert Parcel.objects.get().status == 999


def test_in_a_batch_the_others_are_announced(shop: Shop) -> None:
    orders = [body(**ANNOUNCED, insured_value=1), body(**ANNOUNCED)]
    shown = shop.post("parcels?errors=verbose", {"parcels": orders}).json()
    assert list(shown["failed_parcels"][0]["errors"]) == ["insured_value"]
    assert len(shown["parcels"]) == 1


def test_no_method_offers_what_no_carrier_would_be_told() -> None:
    """A consignment has no service point: red when a method claims that it takes one."""
    assert {m.service_point_input for m in registry.SHIPPING_METHODS.values()} == {"none"}
