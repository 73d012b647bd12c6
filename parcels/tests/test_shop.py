"""What a shop has set up, what it may ship with, and what was tried for its parcels."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from parcels.models import (
    Account,
    Attempt,
    Brand,
    Integration,
    Parcel,
    SenderAddress,
    State,
)
from parcels.services import review
from parcels.statuses import Status
from parcels.tests.factories import (
    AnnouncementFactory,
    LabelledParcelFactory,
    ParcelFactory,
    sender,
)
from parcels.tests.requests import Shop, body
from parcels.timeline import timeline

pytestmark = pytest.mark.django_db


@pytest.fixture
def address(shop: Shop) -> SenderAddress:
    brand = Brand.objects.create(
        account=shop.account, name="Kade", return_portal_url="https://returns.example/kade"
    )
    return SenderAddress.objects.create(
        account=shop.account,
        brand=brand,
        company_name="Kade B.V.",
        contact_name="Magazijn",
        street="Kanaalweg",
        house_number="3",
        postal_code="3526 KL",
        city="Utrecht",
        country="NL",
        country_state="UT",
    )


def test_the_account_is_where_its_first_address_is(shop: Shop, address: SenderAddress) -> None:
    user = shop.get("user").json()["user"]
    assert user["username"] == shop.account.name
    assert (user["address"], user["house_number"], user["city"]) == ("Kanaalweg", "3", "Utrecht")


def test_a_bare_account_is_a_user_too(shop: Shop) -> None:
    assert shop.get("user").json()["user"]["address"] == ""


@pytest.mark.parametrize(("country", "stored"), [("nl", "NL"), ("XX", None), ("", None)])
def test_an_address_s_country_is_one(
    shop: Shop, admin_client: Client, country: str, stored: str | None
) -> None:
    """From "nl", or nowhere, no parcel to another country needed customs' documents."""
    fields = {"street": "Kanaalweg", "postal_code": "3526 KL", "city": "Utrecht"}
    page = "/admin/parcels/senderaddress/add/"
    admin_client.post(page, fields | {"account": shop.account.pk, "country": country})
    found = SenderAddress.objects.filter(account=shop.account, street="Kanaalweg").first()
    assert (found and found.country) == stored


def test_an_address_and_a_brand_stay_their_account_s(
    shop: Shop, other_shop: Shop, admin_client: Client, address: SenderAddress
) -> None:
    """Moved, a default address would be on the labels of two accounts."""
    fields = {"street": "Kade", "postal_code": "3526 KL", "city": "Delft", "country": "NL"}
    for row in (address, address.brand):
        assert row is not None
        page = f"/admin/parcels/{row._meta.model_name}/{row.pk}/change/"
        moved = fields | {"name": "Wharf", "account": other_shop.account.pk}
        assert admin_client.post(page, moved).status_code == 302
        row.refresh_from_db()
        assert row.account == shop.account
    assert address.city == "Delft"


def test_an_address_has_a_brand_of_its_own_account(
    shop: Shop, other_shop: Shop, admin_client: Client, address: SenderAddress
) -> None:
    fields = {"street": "Kade", "postal_code": "3526 KL", "city": "Delft", "country": "NL"}
    for account, status in ((other_shop.account, 200), (shop.account, 302)):
        added = fields | {"account": account.pk, "brand": address.brand_id}
        answer = admin_client.post("/admin/parcels/senderaddress/add/", added)
        assert answer.status_code == status
    assert not other_shop.account.sender_addresses.exists()


def test_addresses_brands_and_integrations_are_listed(shop: Shop, address: SenderAddress) -> None:
    Integration.objects.create(account=shop.account, shop_name="Webshop", system="api")
    senders = shop.get("user/addresses/sender").json()["sender_addresses"]
    assert [(row["id"], row["street"]) for row in senders] == [(address.pk, "Kanaalweg")]
    brands = shop.get("brands").json()["brands"]
    assert [(row["id"], row["name"]) for row in brands] == [(address.brand_id, "Kade")]
    integrations = shop.get("integrations").json()
    assert [row["shop_name"] for row in integrations] == ["Webshop"]


def test_a_sender_address_is_shown(shop: Shop, other_shop: Shop, address: SenderAddress) -> None:
    path = f"user/addresses/sender/{address.pk}"
    listed = shop.get("user/addresses/sender").json()["sender_addresses"]
    assert shop.get(path).json() == {"sender_address": listed[0]}
    assert other_shop.get(path).status_code == 404
    assert shop.get(f"{path}000").status_code == 404


def test_a_parcel_is_sent_from_the_address_as_it_was(shop: Shop, address: SenderAddress) -> None:
    order = body(sender_address=address.pk, from_telephone="030-1")
    assert shop.post("parcels", {"parcel": order}).status_code == 200
    address.city = "Delft"
    address.save()
    consigned = sender(Parcel.objects.get())
    assert (consigned.company, consigned.name) == ("Kade B.V.", "Magazijn")
    assert (consigned.street, consigned.house_number) == ("Kanaalweg", "3")
    assert (consigned.city, consigned.country, consigned.state) == ("Utrecht", "NL", "UT")
    assert consigned.phone == "030-1"


def test_an_address_is_looked_up_once_for_a_batch(
    shop: Shop, address: SenderAddress, django_assert_num_queries: Any
) -> None:
    orders = [body(sender_address=address.pk) for _ in range(10)]
    # key, savepoint, address, parcels, release of the savepoint
    with django_assert_num_queries(5):
        shop.post("parcels", {"parcels": orders})


RETURN = {
    "is_return": True,
    "from_name": "Klant",
    "from_address_1": "Dorpsstraat",
    "from_house_number": "1",
    "from_city": "Gent",
    "from_postal_code": "9000",
    "from_country": "BE",
}


def test_a_return_comes_from_its_sender(shop: Shop) -> None:
    shown = shop.post("parcels", {"parcel": body(**RETURN)}).json()["parcel"]
    assert shown["is_return"] is True
    assert sender(Parcel.objects.get()).city == "Gent"


@pytest.mark.parametrize(
    "missing", ["from_name", "from_address_1", "from_city", "from_postal_code", "from_country"]
)
def test_a_return_must_say_where_it_comes_from(shop: Shop, missing: str) -> None:
    answer = shop.post("parcels", {"parcel": body(**RETURN | {missing: None})})
    assert answer.status_code == 400
    assert missing in answer.json()["error"]["message"]


def test_a_sender_s_country_must_be_one(shop: Shop) -> None:
    answer = shop.post("parcels", {"parcel": body(from_country="Belgium")})
    assert "from_country" in answer.json()["error"]["message"]
    assert shop.post("parcels", {"parcel": body(from_country="")}).status_code == 200


def test_the_same_reference_brings_every_collo_again(shop: Shop) -> None:
    order = {"parcels": [body(quantity=3, external_reference="order-1")]}
    first = [parcel["id"] for parcel in shop.post("parcels", order).json()["parcels"]]
    again = [parcel["id"] for parcel in shop.post("parcels", order).json()["parcels"]]
    assert again == first
    assert len(first) == 3


def test_colli_count_as_parcels(shop: Shop) -> None:
    answer = shop.post("parcels", {"parcels": [body(quantity=20)] * 6})
    assert answer.status_code == 400
    assert not Parcel.objects.exists()


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 6),
        ("to_country=nl", 6),
        ("to_country=US", 6),
        ("to_country=JP", 0),
        ("is_return=true&from_postal_code=1234AB&to_postal_code=9000", 6),
        ("service_point_id=17", 0),
        ("sender_address={address}", 6),
        ("sender_address=all", 6),
        ("sender_address=all&to_country=JP", 0),
    ],
)
def test_shipping_methods_that_fit(
    shop: Shop, address: SenderAddress, query: str, count: int
) -> None:
    methods = shop.get(f"shipping_methods?{query.format(address=address.pk)}").json()
    assert len(methods["shipping_methods"]) == count


def test_a_country_has_its_own_id_everywhere(shop: Shop) -> None:
    countries = [
        {country["iso_2"]: country["id"] for country in method["countries"]}
        for method in shop.get("shipping_methods").json()["shipping_methods"]
    ]
    # ISO 3166-1 numeric: the same for each method, whatever else it serves.
    assert {shown["NL"] for shown in countries} == {528}
    assert {shown["AT"] for shown in countries} == {40}


def test_from_where_no_carrier_fetches_there_is_no_method(
    shop: Shop, address: SenderAddress
) -> None:
    SenderAddress.objects.update(country="JP")
    path = f"shipping_methods?sender_address={address.pk}"
    assert shop.get(path).json()["shipping_methods"] == []
    assert shop.get(f"shipping_methods/8?sender_address={address.pk}").status_code == 404


@pytest.mark.parametrize(
    "query",
    [
        "to_country=XX",
        "to_country=%C3%9F",  # in capitals SS, South Sudan
        "to_country=%00",
        "is_return=perhaps",
        "sender_address=4711",
        "sender_address=x",
        "service_point_id=-1",
        "from_postal_code=%00",
    ],
)
def test_bad_method_filters_are_400(shop: Shop, query: str) -> None:
    assert shop.get(f"shipping_methods?{query}").status_code == 400


def test_the_return_portal_is_the_brand_s(shop: Shop, address: SenderAddress) -> None:
    Brand.objects.create(account=shop.account, name="Other")
    parcel = LabelledParcelFactory.create(account=shop.account, sender_address=address.pk)
    url = shop.get(f"parcels/{parcel.pk}/return_portal_url").json()["url"]
    assert url == f"https://returns.example/kade?tracking_number={parcel.tracking_number}"


@pytest.mark.parametrize(
    ("portal", "url"),
    [
        ("https://r.example/", "https://r.example/?tracking_number=3S%261"),
        ("https://r.example/?shop=1", "https://r.example/?shop=1&tracking_number=3S%261"),
        ("https://r.example?b&a=%20#/x?", "https://r.example?b&a=%20&tracking_number=3S%261#/x?"),
    ],
)
def test_the_number_joins_the_query_of_a_return_portal(shop: Shop, portal: str, url: str) -> None:
    Brand.objects.create(account=shop.account, name="Kade", return_portal_url=portal)
    parcel = LabelledParcelFactory.create(account=shop.account, tracking_number="3S&1")
    assert shop.get(f"parcels/{parcel.pk}/return_portal_url").json() == {"url": url}


@pytest.mark.parametrize(
    "values", [{"is_return": True}, {"status": Status.CANCELLED}, {"tracking_number": ""}]
)
def test_what_was_not_sent_out_has_no_return_portal(
    shop: Shop, address: SenderAddress, values: dict[str, Any]
) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account, **values)
    assert shop.get(f"parcels/{parcel.pk}/return_portal_url").status_code == 404


def test_without_a_brand_there_is_no_return_portal(shop: Shop) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account)
    assert shop.get(f"parcels/{parcel.pk}/return_portal_url").status_code == 404


def test_attempts_tell_what_was_tried_without_personal_data(shop: Shop) -> None:
    announcement = AnnouncementFactory.create(parcel__account=shop.account, state=State.FAILED)
    for fence, outcome in enumerate(("not_sent", "refused"), start=1):
        Attempt.objects.create(
            announcement=announcement, fence=fence, outcome=outcome, detail="CODE", duration=0.25
        )
    answer = shop.get(f"parcels/{announcement.parcel_id}/attempts")
    attempts = answer.json()["attempts"]
    assert [attempt["outcome"] for attempt in attempts] == ["not_sent", "refused"]
    assert attempts[0]["reference"] == announcement.reference
    assert (attempts[0]["duration"], attempts[0]["reason"]) == (0.25, "CODE")
    for personal in (announcement.parcel.name, announcement.parcel.city, "Havenstraat"):
        assert personal.encode() not in answer.content


def test_attempts_do_not_name_the_person_who_decided(shop: Shop) -> None:
    parcel = ParcelFactory.create(account=shop.account)
    announcement = AnnouncementFactory.create(parcel=parcel, state=State.NEEDS_REVIEW)
    review.give_up(announcement, by="alice@ops.example")
    answer = shop.get(f"parcels/{parcel.pk}/attempts")
    (attempt,) = answer.json()["attempts"]
    assert (attempt["kind"], attempt["outcome"], attempt["reason"]) == ("review", "given_up", "")
    assert any("alice@ops.example" in step.detail for step in timeline(parcel))


def test_the_demo_s_accounts_are_furnished_once(tmp_path: Path) -> None:
    for _ in range(2):
        call_command("demo_account", env_file=tmp_path / "keys", stdout=io.StringIO())
    assert Account.objects.count() == 2
    for model in (SenderAddress, Brand, Integration):
        assert model._default_manager.count() == 2


def test_answers_are_plain_json(shop: Shop, address: SenderAddress) -> None:
    for path in ("user", "user/addresses/sender", "brands", "integrations"):
        assert json.loads(shop.get(f"{path}/").content) is not None
