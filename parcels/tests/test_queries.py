"""Queries, paths and headers: bounded, and read in linear time."""

import time

import pytest
from django.db import connection

from parcels.selectors import colli_by_reference
from parcels.tests.factories import LabelledParcelFactory, ParcelFactory
from parcels.tests.hold_plans import explaining
from parcels.tests.requests import Shop

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "digits", ["0" * 5000, "9" * 5000, "0" * 12 + "1", "00000000008", "\u0661"]
)
@pytest.mark.parametrize(
    "query",
    [
        "parcels?parcel_status={}",
        "parcels/{id}/documents/label?dpi={}",
        "labels/normal_printer/{id}?start_from={}",
        "shipping_methods?sender_address={}",
        "shipping_methods/8?service_point_id={}",
        "parcels/{id}?wait={}",
    ],
)
def test_a_number_of_many_digits_is_a_400(shop: Shop, query: str, digits: str) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account)
    answer = shop.get(query.format(digits, id=parcel.pk))
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == 400


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("tracking_number=%00", "NUL"),
        ("order_number=a%00", "NUL"),
        ("order_number=" + "x" * 256, "255"),
        ("external_reference=" + "%F0%9F%93%A6" * 256, "255"),
        ("a=" + "x" * 4096, "4096"),
        ("&".join("a=1" for _ in range(101)), "100"),
    ],
)
def test_a_query_over_its_limits_says_which(shop: Shop, query: str, named: str) -> None:
    ParcelFactory.create(account=shop.account)
    answer = shop.get(f"parcels?{query}")
    assert answer.status_code == 400
    assert named in answer.json()["error"]["message"]


@pytest.mark.parametrize("name", ["from_postal_code", "to_postal_code", "to_country"])
def test_so_does_one_for_methods(shop: Shop, name: str) -> None:
    assert shop.get(f"shipping_methods?{name}={'x' * 256}").status_code == 400


def test_a_hundred_ids_of_eighteen_digits_fit(shop: Shop) -> None:
    ids = ",".join(["9" * 18] * 100)
    assert shop.get(f"parcels?ids={ids}&errors=verbose-carrier").status_code == 200


def test_a_path_that_is_too_long_is_nothing(shop: Shop) -> None:
    answer = shop.get(f"tracking/{'x' * 1000}")
    assert (answer.status_code, answer.json()["error"]["message"]) == (404, "Not found.")


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("application/pdf", "pdf"),
        ("Application/ZPL, application/pdf", "zpl"),
        ("text/html, application/zpl", "zpl"),
        ("*/*", "pdf"),
        ("", "pdf"),
        ("application/*", "pdf"),
        ("nonsense", "pdf"),
        ("x," * 60 + "application/zpl", "zpl"),
    ],
)
def test_of_forms_that_are_equal_the_first_that_there_is_wins(
    shop: Shop, accept: str, form: str
) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account)
    answer = shop.get(f"parcels/{parcel.pk}/documents/label", Accept=accept)
    assert answer["Content-Type"] == f"application/{form}"


@pytest.mark.parametrize(
    "accept", ["a" * 8000, "a/" * 4000, "a." * 4000 + "/", ",".join("a" * 4000)]
)
@pytest.mark.parametrize("known", [True, False])
def test_reading_accept_takes_no_time(shop: Shop, accept: str, known: bool) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account)
    path = f"parcels/{parcel.pk if known else 4711}/documents/label"
    shop.get(path, Accept="application/pdf")
    began = time.thread_time()
    answer = shop.get(path, Accept=accept)
    assert time.thread_time() - began < 0.05
    assert answer.status_code in ({200, 406} if known else {404})


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite takes it for literals only")
def test_the_colli_of_a_reference_are_found_by_an_index(shop: Shop) -> None:
    ParcelFactory.create(account=shop.account, external_reference="r", collo_count=2)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")  # as in a table of a million
    plans: list[tuple[str, str]] = []
    with connection.execute_wrapper(explaining(plans, '"colli_uuid" = ')):
        colli_by_reference(shop.account, ["r"], locked=True)
    assert [("parcel_colli" in plan) for _, plan in plans] == [True]
