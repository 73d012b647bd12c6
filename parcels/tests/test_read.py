"""GET: a parcel, lists with cursors and filters, statuses, methods; and who may see what."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from parcels.models import ApiKey, Parcel
from parcels.statuses import Status
from parcels.tests.factories import LabelledParcelFactory, ParcelFactory
from parcels.tests.requests import Shop, basic

pytestmark = pytest.mark.django_db
ERROR = {
    "error": {"code": 401, "request": "api/v2/parcels", "message": "Invalid username/password."}
}


def test_a_labelled_parcel_has_links_and_documents(shop: Shop) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account)
    shown = shop.get(f"parcels/{parcel.pk}").json()["parcel"]
    base = f"http://testserver/api/v2/labels/normal_printer/{parcel.pk}?start_from="
    assert shown["status"] == {"id": 1000, "message": "Ready to send"}
    assert shown["label"]["normal_printer"] == [f"{base}{quadrant}" for quadrant in range(4)]
    assert shown["label"]["label_printer"].endswith(f"/labels/label_printer/{parcel.pk}")
    assert shown["documents"] == [
        {
            "type": "label",
            "size": "a6",
            "link": f"http://testserver/api/v2/parcels/{parcel.pk}/documents/label",
        }
    ]
    assert shown["shipment"] == {"id": 8, "name": "Unstamped letter"}
    assert shown["carrier"] == {"code": "postnl"}


def test_the_carrier_s_words_are_shown_on_request_only(shop: Shop) -> None:
    parcel = ParcelFactory.create(
        account=shop.account, status=Status.ANNOUNCEMENT_FAILED, carrier_error="PostNL: no"
    )
    assert "errors" not in shop.get(f"parcels/{parcel.pk}").json()["parcel"]
    verbose = shop.get(f"parcels/{parcel.pk}?errors=verbose-carrier").json()["parcel"]
    assert verbose["errors"] == {"non_field_errors": ["PostNL: no"]}


def test_both_forms_of_an_address_work(shop: Shop) -> None:
    for path in ("parcels", "parcels/", "parcels/statuses", "parcels/statuses/"):
        assert shop.get(path).status_code == 200


def test_a_cursor_walks_through_everything_once(shop: Shop) -> None:
    ParcelFactory.create_batch(201, account=shop.account)
    seen: list[int] = []
    path: str | None = "parcels"
    while path:
        page = shop.get(path).json()
        seen += [parcel["id"] for parcel in page["parcels"]]
        path = page["next"] and page["next"].removeprefix("http://testserver/api/v2/")
    assert seen == sorted(set(seen), reverse=True)
    assert len(seen) == 201


def test_links_to_pages_begin_with_the_public_url(shop: Shop, settings: Any) -> None:
    settings.PUBLIC_URL = "https://api.example"
    ParcelFactory.create_batch(101, account=shop.account)
    following = shop.get("parcels").json()["next"]
    assert following.startswith("https://api.example/api/v2/parcels?cursor=")
    previous = shop.get(following.removeprefix("https://api.example/api/v2/")).json()["previous"]
    assert previous.startswith("https://api.example/api/v2/parcels?cursor=")


@pytest.mark.parametrize("cursor", ["x", "%00", "cD1hYmM=", "😀"])
def test_a_bad_cursor_is_404(shop: Shop, cursor: str) -> None:
    response = shop.get(f"parcels?cursor={cursor}")
    assert response.status_code == 404
    assert response.json()["error"]["message"] == "Invalid cursor"


def test_filters(shop: Shop) -> None:
    old = ParcelFactory.create(account=shop.account, order_number="A", external_reference="e")
    new = LabelledParcelFactory.create(account=shop.account, order_number="B")
    Parcel.objects.filter(pk=old.pk).update(date_updated=new.date_updated - timedelta(days=2))

    def found(query: str) -> list[int]:
        return [parcel["id"] for parcel in shop.get(f"parcels?{query}").json()["parcels"]]

    day_ago = (new.date_updated - timedelta(days=1)).isoformat()
    assert found("parcel_status=1000") == [new.pk]
    assert found(f"tracking_number={new.tracking_number}") == [new.pk]
    assert found("external_reference=e") == [old.pk]
    assert found("order_number=B") == [new.pk]
    assert found(f"updated_after={day_ago}") == [new.pk]
    assert found(f"announced_after={day_ago}") == [new.pk]
    assert found(f"ids={old.pk},{new.pk},999999") == [new.pk, old.pk]


@pytest.mark.parametrize(
    "query",
    [
        "parcel_status=x",
        "parcel_status=99999999999999999999",
        "updated_after=yesterday",
        "updated_after=2026-13-45",
        "ids=1,x",
        "ids=²",
        "ids=" + ",".join(["1"] * 101),
        "order_number=%00",
    ],
)
def test_bad_filters_are_400(shop: Shop, query: str) -> None:
    assert shop.get(f"parcels?{query}").status_code == 400


@pytest.mark.parametrize("wait", ["-1", "x", "1.5", "9999999999"])
def test_a_bad_wait_is_400(shop: Shop, wait: str) -> None:
    parcel = ParcelFactory.create(account=shop.account)
    assert shop.get(f"parcels/{parcel.pk}?wait={wait}").status_code == 400


def test_statuses_are_a_bare_array(shop: Shop) -> None:
    statuses = shop.get("parcels/statuses").json()
    assert {"id": 1001, "message": "Being announced"} in statuses
    assert len(statuses) == len(Status)


def test_shipping_methods(shop: Shop) -> None:
    methods = {
        method["id"]: method for method in shop.get("shipping_methods").json()["shipping_methods"]
    }
    assert methods[8]["name"] == "Unstamped letter"
    assert {"iso_2", "iso_3", "name", "price", "id"} == set(methods[10]["countries"][0])
    assert shop.get("shipping_methods/8").json()["shipping_method"] == methods[8]
    assert shop.get("shipping_methods/4711").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "parcels/{id}",
        "parcels/{id}?wait=1",
        "parcels/{id}/documents/label",
        "labels/{id}",
        "labels/normal_printer/{id}",
        "labels/label_printer?ids={id}",
    ],
)
def test_another_account_s_parcel_is_not_there(shop: Shop, other_shop: Shop, path: str) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account, label=_a6())
    assert shop.get(path.format(id=parcel.pk)).status_code == 200
    foreign = other_shop.get(path.format(id=parcel.pk))
    missing = other_shop.get(path.format(id=parcel.pk + 1000))
    assert foreign.status_code == missing.status_code == 404
    assert parcel.name not in foreign.content.decode()


def test_lists_show_one_s_own_only(shop: Shop, other_shop: Shop) -> None:
    parcel = ParcelFactory.create(account=shop.account)
    assert other_shop.get("parcels").json()["parcels"] == []
    assert other_shop.get(f"parcels?ids={parcel.pk}").json()["parcels"] == []


def test_wrong_keys_get_one_answer(shop: Shop) -> None:
    key = ApiKey.objects.get()
    for public, secret in [(key.public_key, "wrong"), ("unknown", "wrong"), ("\0", "x"), ("", "")]:
        response = Client().get("/api/v2/parcels", headers={"Authorization": basic(public, secret)})
        assert (response.status_code, response.json()) == (401, ERROR)
        assert response["WWW-Authenticate"].startswith("Basic")


def test_no_keys_at_all_is_401(db: Any) -> None:
    response = Client().get("/api/v2/parcels")
    assert response.status_code == 401
    assert response["WWW-Authenticate"].startswith("Basic")


def test_a_revoked_key_and_an_inactive_account_are_401(shop: Shop) -> None:
    ApiKey.objects.update(revoked_at="2026-01-01T00:00:00Z")
    assert shop.get("parcels").status_code == 401
    ApiKey.objects.update(revoked_at=None)
    assert shop.get("parcels").status_code == 200
    shop.account.is_active = False
    shop.account.save()
    assert shop.get("parcels").status_code == 401


def test_secrets_are_hashed_at_rest(shop: Shop) -> None:
    key = ApiKey.objects.get()
    assert len(key.digest) == len(key.secret_hash) == 64


def _a6() -> bytes:
    import io

    from pypdf import PdfWriter

    writer = PdfWriter()
    writer.add_blank_page(297.64, 420.94)
    output = io.BytesIO()
    writer.write(output)
    return output.getvalue()


def test_a_list_says_when_to_look_again_at_what_is_announced(shop: Shop) -> None:
    LabelledParcelFactory.create(account=shop.account)
    assert "Retry-After" not in shop.get("parcels")
    waiting = ParcelFactory.create(account=shop.account)
    assert int(shop.get(f"parcels?ids={waiting.pk}")["Retry-After"]) > 0
