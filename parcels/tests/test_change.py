"""PUT /parcels: only what was not announced, only what is given."""

from datetime import timedelta
from time import monotonic
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from parcels.models import Announcement, Hold, Parcel
from parcels.representation import Question
from parcels.services import protect
from parcels.services.accept import Mode
from parcels.services.change import change_parcel
from parcels.services.holds import Asked
from parcels.statuses import Status
from parcels.tests.factories import LabelledParcelFactory, ParcelFactory
from parcels.tests.requests import Shop, body

Sent = list[tuple[str, int, str]]
pytestmark = pytest.mark.django_db


@pytest.fixture
def parcel(shop: Shop) -> Parcel:
    return ParcelFactory.create(
        account=shop.account, status=Status.NO_LABEL, order_number="A", note="fragile"
    )


def test_what_is_given_changes_and_the_rest_stays(shop: Shop, parcel: Parcel) -> None:
    answer = shop.put("parcels", {"parcel": {"id": parcel.pk, "city": "Delft", "note": ""}})
    shown = answer.json()["parcel"]
    assert answer.status_code == 200
    assert (shown["city"], shown["note"], shown["order_number"]) == ("Delft", "", "A")
    assert shown["status"]["id"] == 999
    assert not Announcement.objects.exists()


def test_null_leaves_what_is_there(shop: Shop, parcel: Parcel) -> None:
    shown = shop.put("parcels", {"parcel": {"id": parcel.pk, "order_number": None}}).json()
    assert shown["parcel"]["order_number"] == "A"


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ({"to_state": ""}, None),
        ({"country_state": ""}, None),
        ({"country_state": "", "to_state": "TX"}, "TX"),
    ],
)
def test_a_blank_takes_a_state_back(
    shop: Shop, parcel: Parcel, change: dict[str, str], left: str | None
) -> None:
    Parcel.objects.update(to_state="CA")
    shown = shop.put("parcels", {"parcel": {"id": parcel.pk} | change}).json()["parcel"]
    assert shown["to_state"] == left


def test_a_blank_takes_back_what_was_said_of_the_sender(shop: Shop, parcel: Parcel) -> None:
    Parcel.objects.update(from_address={"name": "Ada", "company_name": "Old", "country": "BE"})
    blank = {"from_name": None, "from_company_name": "", "from_country": "", "from_city": ""}
    assert shop.put("parcels", {"parcel": {"id": parcel.pk} | blank}).status_code == 200
    parcel.refresh_from_db()
    assert parcel.from_address == {"name": "Ada"}


def test_an_insured_parcel_can_be_sent_back_as_it_is_shown(shop: Shop, parcel: Parcel) -> None:
    Parcel.objects.update(insured_value=500)
    shown = shop.get(f"parcels/{parcel.pk}").json()["parcel"]
    assert shop.put("parcels", {"parcel": shown}).json()["parcel"]["insured_value"] == 500


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"house_number": ""}, 400),
        ({"house_number": "", "address": "Market Square"}, 400),
        ({"house_number": "", "address": "Havenstraat 12"}, 200),
        ({"house_number": None}, 200),
    ],
)
def test_a_change_leaves_an_address_with_its_number(
    shop: Shop, parcel: Parcel, change: dict[str, Any], status: int
) -> None:
    answer = shop.put("parcels", {"parcel": {"id": parcel.pk, **change}})
    assert answer.status_code == status
    assert "12" in shop.get(f"parcels/{parcel.pk}").json()["parcel"]["address"]
    if status == 400:
        said = "house_number: 'This field cannot be blank.'"
        assert answer.json()["error"]["message"] == said


def test_items_are_complete_after_a_change(shop: Shop, parcel: Parcel) -> None:
    item = {"description": "Book", "value": 3}
    shown = shop.put("parcels", {"parcel": {"id": parcel.pk, "parcel_items": [item]}}).json()
    stored = shown["parcel"]["parcel_items"][0]
    assert (stored["quantity"], stored["value"], stored["hs_code"]) == (1, "3.00", "")


def test_asynchronously_announced_by_a_change(
    shop: Shop, parcel: Parcel, no_broker: Sent, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        answer = shop.put("parcels", {"parcel": {"id": parcel.pk, "request_label_async": True}})
    assert answer.json()["parcel"]["status"]["id"] == 1001
    assert int(answer["Retry-After"]) > 0
    assert no_broker == [("announce", Announcement.objects.get().pk, "postnl")]


def test_a_synchronous_change_waits_like_a_post(
    shop: Shop, parcel: Parcel, no_broker: Sent
) -> None:
    payload = {"parcel": {"id": str(parcel.pk), "request_label": True}}
    answer = shop.put("parcels", payload, Prefer="wait=0")
    assert answer.status_code == 202
    assert answer["Location"].endswith(f"/parcels/{parcel.pk}")
    assert answer["Preference-Applied"] == "wait=0"
    assert Hold.objects.get().announcements.get().parcel == parcel


def test_a_hold_lasts_as_long_as_its_client_has_left(
    parcel: Parcel, no_broker: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a client that queued before is counted among the held ones after it was answered."""
    monkeypatch.setattr("offload.wait", lambda hold_id, seconds: None)
    question = Question([], "http://x", "/api/v2/parcels")
    asked = Asked(parcel.account, question, seconds=60, until=monotonic() + 20)
    change_parcel(asked=asked, parcel_id=parcel.pk, fields={}, mode=Mode.SYNC)
    assert Hold.objects.get().deadline_at < timezone.now() + timedelta(seconds=30)


def test_nobody_waits_for_a_carrier_that_is_out(
    shop: Shop, parcel: Parcel, no_broker: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protect, "carriers_out", lambda: {"postnl"})
    answer = shop.put("parcels", {"parcel": {"id": parcel.pk, "request_label": True}})
    assert (answer.status_code, Hold.objects.count()) == (202, 0)
    assert Announcement.objects.get().parcel == parcel


@pytest.mark.parametrize("status", [1000, 1001, 1002, 2000, 11])
def test_what_was_announced_stays(shop: Shop, status: int) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account, status=status)
    answer = shop.put("parcels", {"parcel": {"id": parcel.pk, "city": "Delft"}})
    assert answer.status_code == 400
    parcel.refresh_from_db()
    assert parcel.city == "Utrecht"


@pytest.mark.parametrize(
    ("payload", "named"),
    [
        (b"parcel=1&id=2", "JSON"),
        ({}, "parcel"),
        ([], "parcel"),
        ({"parcel": []}, "parcel"),
        ({"parcel": {}}, "id"),
        ({"parcel": {"id": True}}, "id"),
        ({"parcel": {"id": None}}, "id"),
        ({"parcel": {"id": {}}}, "id"),
        ({"parcel": {"name": ""}}, "name"),
        ({"parcel": {"length": "3"}}, "length"),
        ({"parcel": {"quantity": 3}}, "quantity"),
        ({"parcel": {"shipment": 4711}}, "shipment"),
        ({"parcel": {"weight": "90", "request_label": True}}, "weight"),
        ({"parcel": {"is_return": True}}, "from_name"),
    ],
)
def test_bad_changes_are_400(shop: Shop, parcel: Parcel, payload: Any, named: str) -> None:
    if isinstance(payload, dict) and isinstance(payload.get("parcel"), dict) and named != "id":
        payload["parcel"]["id"] = parcel.pk
    answer = shop.put("parcels", payload)
    assert answer.status_code == 400, answer.content
    assert named in answer.json()["error"]["message"]
    assert not Announcement.objects.exists()


@pytest.mark.parametrize("parcel_id", [10**6, 10**30, -1, "x", "\u0661"])
def test_an_unknown_parcel_is_404(shop: Shop, parcel_id: Any) -> None:
    assert shop.put("parcels", {"parcel": {"id": parcel_id, "city": "X"}}).status_code == 404


def test_a_reference_that_is_taken_is_409(shop: Shop, parcel: Parcel) -> None:
    shop.post("parcels", {"parcel": body(external_reference="order-1")})
    change = {"id": parcel.pk, "external_reference": "order-1"}
    assert shop.put("parcels", {"parcel": change}).status_code == 409


def test_another_account_s_parcel_stays(other_shop: Shop, parcel: Parcel) -> None:
    answer = other_shop.put("parcels", {"parcel": {"id": parcel.pk, "city": "Delft"}})
    assert answer.status_code == 404
    parcel.refresh_from_db()
    assert parcel.city == "Utrecht"


def test_the_work_of_a_change_is_bounded(
    shop: Shop, parcel: Parcel, django_assert_num_queries: Any
) -> None:
    # key, savepoint, parcel, update, release of the savepoint
    with django_assert_num_queries(5) as asked:
        shop.put("parcels", {"parcel": {"id": parcel.pk, "city": "Delft"}})
    # Else each of two changes at once would announce it. SQLite's writers take turns.
    assert connection.vendor == "sqlite" or "FOR UPDATE" in asked.captured_queries[2]["sql"]
