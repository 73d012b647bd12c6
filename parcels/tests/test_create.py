"""POST /parcels without a carrier: what is stored, what is queued, what is refused."""

from typing import Any

import pytest
from django.db import OperationalError, connection

from carriers.redis_guard import RedisGuard
from parcels.models import Account, Announcement, Hold, Parcel
from parcels.representation import divide_address
from parcels.services import accept, protect
from parcels.services.rows import insert
from parcels.statuses import Status
from parcels.tests.factories import ParcelFactory
from parcels.tests.requests import Shop, body

Sent = list[tuple[str, int, str]]
pytestmark = pytest.mark.django_db


def test_a_parcel_without_a_label_is_stored_as_999(shop: Shop) -> None:
    response = shop.post("parcels", {"parcel": body()})
    parcel = response.json()["parcel"]
    assert response.status_code == 200
    assert parcel["status"] == {"id": 999, "message": "No label"}
    assert parcel["label"] == {}
    assert parcel["documents"] == []
    assert parcel["tracking_number"] == ""
    assert parcel["address"] == "Havenstraat 12"
    assert parcel["address_divided"] == {"street": "Havenstraat", "house_number": "12"}
    assert parcel["country"] == {"iso_2": "NL", "iso_3": "NLD", "name": "Netherlands"}
    assert "errors" not in parcel
    assert not Announcement.objects.exists()


@pytest.mark.parametrize(
    ("address", "number", "street"),
    [
        ("Havenstraat 12", "12", "Havenstraat"),
        ("Havenstraat12", "12", "Havenstraat"),
        ("Havenstraat, 12", "12", "Havenstraat"),
        ("Havenstraat", "12", "Havenstraat"),
        ("12", "12", "12"),
        ("Via Roma", "a", "Via Roma"),
        ("Kade 112", "12", "Kade 112"),
        ("Kade 1-12", "12", "Kade 1-12"),
    ],
)
def test_a_house_number_is_taken_off_the_street_where_it_is_one(
    address: str, number: str, street: str
) -> None:
    assert divide_address(address, number) == (street, number)


@pytest.mark.parametrize("shipment", [{"id": 8}, 8, "8", {"id": 8, "name": "Unstamped letter"}])
def test_asynchronous_answers_1001_and_wakes_a_worker(
    shop: Shop,
    no_broker: Sent,
    shipment: Any,
    django_capture_on_commit_callbacks: Any,
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        response = shop.post(
            "parcels", {"parcel": body(shipment=shipment, request_label_async=True)}
        )
    assert response.status_code == 200
    assert response.json()["parcel"]["status"]["id"] == 1001
    assert int(response["Retry-After"]) > 0
    announcement = Announcement.objects.get()
    assert announcement.parcel_id == response.json()["parcel"]["id"]
    assert no_broker == [("announce", announcement.pk, "postnl")]


def test_several_at_once(shop: Shop) -> None:
    response = shop.post("parcels", {"parcels": [body(name="A"), body(name="B")]})
    assert [parcel["name"] for parcel in response.json()["parcels"]] == ["A", "B"]


def test_one_invalid_parcel_fails_the_whole_batch(shop: Shop) -> None:
    response = shop.post("parcels", {"parcels": [body(), body(name="")]})
    assert response.status_code == 400
    assert response.json() == {
        "error": {
            "code": 400,
            "request": "api/v2/parcels",
            "message": "name: 'This field cannot be blank.'",
        }
    }
    assert not Parcel.objects.exists()


def test_verbose_errors_let_the_good_ones_through(shop: Shop) -> None:
    response = shop.post("parcels?errors=verbose", {"parcels": [body(), body(name="")]})
    assert response.status_code == 200
    assert len(response.json()["parcels"]) == 1
    assert response.json()["failed_parcels"] == [
        {"parcel": body(name=""), "errors": {"name": ["This field cannot be blank."]}}
    ]


@pytest.mark.parametrize("parcel", [None, [], 7])
def test_verbose_errors_are_an_object_also_for_no_parcel_at_all(shop: Shop, parcel: Any) -> None:
    answer = shop.post("parcels?errors=verbose", {"parcels": [parcel]})
    [failed] = answer.json()["failed_parcels"]
    assert failed["parcel"] == parcel
    assert list(failed["errors"]) == ["non_field_errors"]


@pytest.mark.django_db(transaction=True)  # nothing is locked before there is one
def test_verbose_errors_name_a_reference_that_is_taken(shop: Shop) -> None:
    drafted = body(external_reference="draft", shipment={"id": 8}, weight="99")
    stored = shop.post("parcels", {"parcels": [drafted, body(external_reference="r")]})
    assert stored.status_code == 200
    bad = [
        body(external_reference="r", name="Another"),
        body(external_reference="new", name="Another"),
        drafted | {"request_label_async": True},  # too heavy for its method
    ]
    good = [body(external_reference="new"), body(external_reference="r")]
    answer = shop.post("parcels?errors=verbose", {"parcels": good + bad}).json()
    assert [each["external_reference"] for each in answer["parcels"]] == ["new", "r"]
    assert [each["parcel"] for each in answer["failed_parcels"]] == bad
    taken = {"external_reference": ["It names another parcel of yours."]}
    assert [each["errors"] for each in answer["failed_parcels"]][:2] == [taken, taken]
    assert Parcel.objects.count() == 3


def test_verbose_errors_name_a_reference_that_is_taken_meanwhile(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another request, after each order was looked at and before it is stored."""
    asked = [body(external_reference=name) for name in "abc"]
    others = iter("ac")

    def create(**given: Any) -> Any:
        if name := next(others, None):
            ParcelFactory.create(account=shop.account, external_reference=name)
        return accept.create_parcels(**given)

    monkeypatch.setattr("parcels.views.create.create_parcels", create)
    answer = shop.post("parcels?errors=verbose", {"parcels": asked})
    assert answer.status_code == 200, answer.content
    assert [each["external_reference"] for each in answer.json()["parcels"]] == ["b"]
    failed = answer.json()["failed_parcels"]
    assert [each["parcel"] for each in failed] == [asked[0], asked[2]]
    assert {each["errors"]["external_reference"][0] for each in failed} == {
        "It names another parcel of yours."
    }


def test_verbose_errors_name_an_order_of_which_a_later_collo_cannot_be_announced(
    shop: Shop, no_broker: Sent
) -> None:
    order = body(external_reference="order-1", shipment=8, quantity=2)
    colli = shop.post("parcels", {"parcels": [order]}).json()["parcels"]
    changed = {"parcel": {"id": colli[1]["id"], "weight": "99"}}
    assert shop.put("parcels", changed).status_code == 200
    batch = {"parcels": [order | LATER, body(name="Good")]}
    answer = shop.post("parcels?errors=verbose", batch)
    assert answer.status_code == 200, answer.content
    assert [each["name"] for each in answer.json()["parcels"]] == ["Good"]
    assert list(answer.json()["failed_parcels"][0]["errors"]) == ["weight"]


def test_an_answer_about_one_parcel_says_what_the_carrier_said_of_it(shop: Shop) -> None:
    """Not of another collo of its order, of which the answer shows nothing."""
    order = {"parcel": body(external_reference="order-1", quantity=2)}
    first = shop.post("parcels", order).json()["parcel"]
    refused = Parcel.objects.exclude(pk=first["id"])
    refused.update(status=Status.ANNOUNCEMENT_FAILED, carrier_error="no such street")
    again = shop.post("parcels?errors=verbose-carrier", order)
    assert (again.status_code, again.json()) == (200, {"parcel": first})
    Parcel.objects.update(status=Status.ANNOUNCEMENT_FAILED, carrier_error="no such street")
    again = shop.post("parcels?errors=verbose-carrier", order)
    assert (again.status_code, "no such street" in again.content.decode()) == (400, True)


def test_verbose_errors_name_what_cannot_be_announced(shop: Shop) -> None:
    heavy = body(request_label_async=True, shipment=8, weight="900")
    response = shop.post("parcels?errors=verbose", {"parcels": [heavy]})
    assert list(response.json()["failed_parcels"][0]["errors"]) == ["weight"]


@pytest.mark.parametrize(
    ("payload", "named"),
    [
        (b"", "parcel"),
        (b"{", "JSON"),
        (b"\xff", "JSON"),
        (b"name=x&address=y", "JSON"),
        (b'{"parcel": NaN}', "JSON"),
        (b"[" * 100_000, "JSON"),
        ([], "object"),
        ("text", "object"),
        (None, "parcel"),
        ({}, "parcel"),
        ({"parcel": None}, "null"),
        ({"parcel": []}, "dictionary"),
        ({"parcel": 7}, "dictionary"),
        ({"parcels": {}}, "parcels"),
        ({"parcels": []}, "parcels"),
        ({"parcels": [None]}, "null"),
        ({"parcels": [body()] * 101}, "100"),
        ({"parcel": body(name=...)}, "name"),
        ({"parcel": body(name={"a": 1})}, "name"),
        ({"parcel": body(name="x" * 256)}, "name"),
        ({"parcel": body(name="\0")}, "name"),
        ({"parcel": body(name="\ud800")}, "name"),
        ({"parcel": body(country="XX")}, "country"),
        ({"parcel": body(country=12)}, "country"),
        ({"parcel": body(country="9" * 5000)}, "country"),
        ({"parcel": body(country_state="x" * 256)}, "to_state"),
        ({"parcel": body(weight="heavy")}, "weight"),
        ({"parcel": body(weight="-1")}, "weight"),
        ({"parcel": body(weight="1e9")}, "weight"),
        ({"parcel": body(weight="NaN")}, "weight"),
        # Python reads these as numbers and countries; a client that sent them meant none.
        ({"parcel": body(weight="1_0")}, "weight"),
        ({"parcel": body(weight="\uff11")}, "weight"),
        ({"parcel": body(quantity="1_0")}, "quantity"),
        ({"parcel": body(insured_value="\uff11")}, "insured_value"),
        ({"parcel": body(shipment="0_8")}, "shipment"),
        ({"parcel": body(parcel_items=[{"quantity": "1_0"}])}, "quantity"),
        ({"parcel": body(parcel_items=[{"value": "1_0"}])}, "value"),
        ({"parcel": body(country="\xdf")}, "country"),
        ({"parcel": body(country="\ufb01")}, "country"),
        ({"parcel": body(from_country="\u0131e")}, "from_country"),
        ({"parcel": body(length="1")}, "length"),
        ({"parcel": body(shipment={"id": "eight"})}, "shipment"),
        ({"parcel": body(shipment={"id": 4711})}, "shipment"),
        ({"parcel": body(shipment=10**30)}, "shipment"),
        ({"parcel": body(shipment=True)}, "shipment"),
        ({"parcel": body(contract=10**12)}, "contract"),
        ({"parcel": body(contract=5)}, "contract"),
        ({"parcel": body(insured_value=1, total_insured_value=2)}, "not both"),
        ({"parcel": body(insured_value=5001)}, "insured_value"),
        ({"parcel": body(customs_shipment_type=5)}, "customs_shipment_type"),
        ({"parcel": body(quantity=21)}, "quantity"),
        ({"parcel": body(quantity=2, request_label=True, shipment=8)}, "parcels"),
        ({"parcel": body(request_label=True)}, "shipment"),
        ({"parcel": body(request_label="perhaps")}, "request_label"),
        ({"parcel": body(parcel_items=[{"quantity": 0}])}, "quantity"),
        ({"parcel": body(parcel_items=[{"properties": {"a": "\0"}}])}, "properties"),
        ({"parcel": body(house_number="", address="Market Square")}, "house_number"),
    ],
)
def test_bad_input_is_a_400_that_names_it(shop: Shop, payload: Any, named: str) -> None:
    response = shop.post("parcels", payload)
    assert response.status_code == 400, response.content
    assert named in response.json()["error"]["message"]
    assert not Parcel.objects.exists()


def test_unknown_fields_are_ignored_and_numbers_may_be_numbers(shop: Shop) -> None:
    response = shop.post("parcels", {"parcel": body(weight=1.5, house_number=7, colour="red")})
    parcel = response.json()["parcel"]
    assert (parcel["weight"], parcel["address"]) == ("1.500", "Havenstraat 7")


@pytest.mark.parametrize("nought", ["-0", "-0.00", -0.0])
def test_there_is_one_nought(shop: Shop, nought: Any) -> None:
    item = {"value": nought, "weight": nought}
    sent = body(total_order_value=nought, insured_value="-0", parcel_items=[item])
    shown = shop.post("parcels", {"parcel": sent}).json()["parcel"]
    assert (shown["total_order_value"], shown["insured_value"]) == ("0.00", 0)
    assert (shown["parcel_items"][0]["value"], shown["parcel_items"][0]["weight"]) == (
        "0.00",
        "0.000",
    )


def test_the_same_reference_and_body_yield_the_same_parcel(shop: Shop) -> None:
    first = shop.post("parcels", {"parcel": body(external_reference="order-1")})
    second = shop.post("parcels", {"parcel": body(external_reference="order-1")})
    assert first.json() == second.json()
    assert Parcel.objects.count() == 1


def test_the_same_reference_with_another_body_is_a_conflict(shop: Shop) -> None:
    shop.post("parcels", {"parcel": body(external_reference="order-1")})
    response = shop.post("parcels", {"parcel": body(external_reference="order-1", name="B")})
    assert response.status_code == 409
    assert Parcel.objects.count() == 1


def test_a_reference_is_each_account_s_own(shop: Shop, other_shop: Shop) -> None:
    shop.post("parcels", {"parcel": body(external_reference="order-1")})
    response = other_shop.post("parcels", {"parcel": body(external_reference="order-1", name="B")})
    assert response.status_code == 200
    assert Parcel.objects.count() == 2


STORED: dict[str, bool] = {}
LATER = {"request_label_async": True}
NOW = {"request_label": True}


@pytest.mark.parametrize(
    ("first", "second"),
    [(NOW, LATER), (LATER, NOW), (STORED, NOW), (STORED, LATER), (NOW, STORED), (LATER, STORED)],
)
def test_the_same_reference_is_the_same_parcel_however_its_label_is_asked_for(
    shop: Shop, no_broker: Sent, first: dict[str, bool], second: dict[str, bool]
) -> None:
    fields = {"external_reference": "order-1", "shipment": 8}
    answers = [
        shop.post("parcels", {"parcel": body(**fields, **how)}, Prefer="wait=0")
        for how in (first, second, second)
    ]
    assert {answer.status_code for answer in answers} <= {200, 202}
    assert len({answer.json()["parcel"]["id"] for answer in answers}) == 1
    assert answers[-1].json()["parcel"]["status"]["id"] == Status.BEING_ANNOUNCED
    assert Announcement.objects.count() == 1


def test_a_synchronous_request_is_repeated_asynchronously(shop: Shop, no_broker: Sent) -> None:
    """As a client does after a time-out."""
    payload = {"parcel": body(external_reference="order-1", shipment=8, request_label=True)}
    first = shop.post("parcels", payload, Prefer="wait=0")
    again = shop.post("parcels", payload, Prefer="respond-async")
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json() == first.json()
    assert again["Preference-Applied"] == "respond-async"


def test_a_batch_waits_for_what_was_queued_before(shop: Shop, no_broker: Sent) -> None:
    fields = {"external_reference": "order-1", "shipment": 8}
    shop.post("parcels", {"parcel": body(**fields, **LATER)})
    asked = [body(**fields, **NOW), body(shipment=8, **NOW)]
    shop.post("parcels", {"parcels": asked}, Prefer="wait=0")
    assert set(Hold.objects.get().announcements.all()) == set(Announcement.objects.all())


def test_a_stored_parcel_is_announced_with_all_its_colli(shop: Shop, no_broker: Sent) -> None:
    fields = {"external_reference": "order-1", "shipment": 8, "quantity": 3}
    stored = shop.post("parcels", {"parcels": [body(**fields)]}).json()["parcels"]
    asked = shop.post("parcels", {"parcels": [body(**fields, **LATER)]}).json()["parcels"]
    assert [parcel["id"] for parcel in asked] == [parcel["id"] for parcel in stored]
    assert {parcel["status"]["id"] for parcel in asked} == {1001}
    assert Announcement.objects.count() == 3
    references = {announcement.reference for announcement in Announcement.objects.all()}
    assert [len(each) for each in references] == [24] * 3


def test_a_stored_parcel_that_cannot_be_announced_stays(shop: Shop) -> None:
    shop.post("parcels", {"parcel": body(external_reference="order-1")})
    answer = shop.post("parcels", {"parcel": body(external_reference="order-1", **NOW)})
    assert answer.status_code == 400
    assert Parcel.objects.get().status == Status.NO_LABEL


def test_a_reference_twice_in_a_batch_is_one_parcel(shop: Shop, no_broker: Sent) -> None:
    fields = {"external_reference": "order-1", "shipment": 8}
    answer = shop.post("parcels", {"parcels": [body(**fields), body(**fields, **LATER)]})
    assert {parcel["status"]["id"] for parcel in answer.json()["parcels"]} == {1001}
    assert Announcement.objects.count() == Parcel.objects.count() == 1


class Deadlock(Exception):
    sqlstate = "40P01"


def failing(times: int, cause: Exception) -> Any:
    insert, calls = accept.insert, []

    def fails(*args: Any, **more: Any) -> None:
        calls.append(1)
        if len(calls) <= times:
            raise OperationalError from cause
        insert(*args, **more)

    return fails


@pytest.mark.parametrize(
    ("times", "cause", "status"),
    [(2, Deadlock(), 200), (3, Deadlock(), 503), (1, Exception(), 503)],
)
def test_a_deadlock_is_tried_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, times: int, cause: Exception, status: int
) -> None:
    monkeypatch.setattr(accept, "insert", failing(times, cause))
    assert shop.post("parcels", {"parcel": body()}).status_code == status
    assert Parcel.objects.count() == (status == 200)


def test_rows_are_inserted_in_the_order_of_their_references(shop: Shop) -> None:
    asked = [body(external_reference=name, quantity=2) for name in "bca"]
    answer = shop.post("parcels", {"parcels": asked}).json()["parcels"]
    assert [parcel["external_reference"] for parcel in answer[::2]] == ["b", "c", "a"]
    stored = Parcel.objects.order_by("pk").values_list("external_reference", flat=True)
    assert list(stored) == ["a", None, "b", None, "c", None]


def test_redis_is_asked_outside_of_transactions(
    shop: Shop, no_broker: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, asked = RedisGuard.ask, []

    def outside(guard: RedisGuard, *args: Any) -> Any:
        asked.append(all(vars(block)["_from_testcase"] for block in connection.atomic_blocks))
        return ask(guard, *args)

    monkeypatch.setattr(RedisGuard, "ask", outside)
    monkeypatch.setattr(protect, "BELIEVED", -1.0)
    key = {"Idempotency_Key": "order-1", "Prefer": "wait=0"}
    for _ in range(2):
        shop.post("parcels", {"parcel": body(shipment=8, request_label=True)}, **key)
    stored = shop.post("parcels", {"parcel": body(shipment=8)}).json()["parcel"]["id"]
    shop.put("parcels", {"parcel": {"id": stored, "request_label": True}}, Prefer="wait=0")
    assert Announcement.objects.count() == 2
    assert asked
    assert all(asked)


def test_a_batch_stores_what_only_one_of_it_has(shop: Shop) -> None:
    """A column that is null in all rows isn't written; one that is null in some is."""
    sized = body(length=30, width=20, height=10)
    shop.post("parcels", {"parcels": [body(), sized, body(insured_value=5)]})
    stored = Parcel.objects.order_by("pk").values_list("length", "insured_value", "contract")
    assert list(stored) == [(None, 0, None), (30, 0, None), (None, 5, None)]


@pytest.mark.parametrize("values", [(500, 0), (0, 500), (500, None), (500, 500)])
def test_neither_of_two_names_drops_the_insurance_of_the_other(
    shop: Shop, values: tuple[int, int | None]
) -> None:
    insured = dict(zip(("insured_value", "total_insured_value"), values, strict=True))
    shown = shop.post("parcels", {"parcel": body(**insured)}).json()["parcel"]
    assert (shown["insured_value"], shown["total_insured_value"]) == (500, 500)
    refused = shop.post("parcels", {"parcel": body(shipment=8, request_label=True, **insured)})
    assert "can't be insured" in refused.json()["error"]["message"]


def test_an_inserted_row_is_not_new_any_more(account: Account) -> None:
    parcel = ParcelFactory.build(account=account)
    insert([parcel])
    assert parcel == Parcel.objects.get()
    assert not parcel._state.adding


def test_each_collo_is_a_parcel(shop: Shop) -> None:
    response = shop.post("parcels", {"parcels": [body(quantity=3)]})
    colli = response.json()["parcels"]
    assert [(parcel["collo_nr"], parcel["collo_count"]) for parcel in colli] == [
        (0, 3),
        (1, 3),
        (2, 3),
    ]
    assert len({parcel["colli_uuid"] for parcel in colli}) == 1


@pytest.mark.parametrize("flag", ["request_label", "requestLabel", "requestShipment"])
def test_prefer_respond_async_makes_every_spelling_asynchronous(shop: Shop, flag: str) -> None:
    payload = {"parcel": body(shipment=8, **{flag: True})}
    response = shop.post("parcels", payload, Prefer="respond-async")
    assert response.status_code == 200
    assert response.json()["parcel"]["status"]["id"] == 1001
    assert response["Preference-Applied"] == "respond-async"


def test_the_statements_of_a_label_in_web(
    shop: Shop,
    no_broker: Sent,
    monkeypatch: pytest.MonkeyPatch,
    django_assert_num_queries: Any,
) -> None:
    monkeypatch.setattr("offload.holds_clients", lambda: True)
    monkeypatch.setattr("offload.hold", lambda _, *, late, **__: late)
    # key, savepoint, parcel, announcement, hold with what it waits for, release of the savepoint;
    # the hold is a statement of its own on SQLite.
    with django_assert_num_queries(6 if connection.vendor == "postgresql" else 7):
        shop.post("parcels", {"parcel": body(request_label=True, shipment=8)})
    assert Hold.objects.count() == 1


def test_the_work_of_a_request_does_not_grow(
    shop: Shop, no_broker: Sent, django_assert_num_queries: Any
) -> None:
    # key, savepoint, parcels, announcements, release of the savepoint. Ten: Django splits an
    # insert of more than 999 values on SQLite.
    with django_assert_num_queries(5):
        shop.post(
            "parcels",
            {"parcels": [body(request_label_async=True, shipment=8) for _ in range(10)]},
        )
