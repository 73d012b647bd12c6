"""Whatever is sent: an answer in the dialect's shape, and never a 500."""

from itertools import product
from typing import Any

import pytest

from parcels.tests.factories import LabelledParcelFactory, ParcelFactory
from parcels.tests.requests import Shop

pytestmark = pytest.mark.django_db

WITH_IDS = [
    "parcels/{}",
    "parcels/{}/cancel",
    "parcels/{}/attempts",
    "parcels/{}/return_portal_url",
    "parcels/{}/documents/label",
    "labels/{}",
    "labels/normal_printer/{}",
    "shipping_methods/{}",
]
READ = [
    "parcels",
    "parcels/statuses",
    "parcels/{id}",
    "parcels/{id}/attempts",
    "parcels/{id}/documents/label",
    "labels/{id}",
    "labels/label_printer/{id}",
    "shipping_methods",
    "shipping_methods/8",
    "tracking/{number}",
    "user",
    "user/addresses/sender",
    "brands",
    "integrations",
]
# More than a bigint, more than int() reads, digits of another script, and what is no number.
ODD_IDS = [
    "9223372036854775808",
    "1" * 30,
    "1" * 5000,
    "\u0661",
    "0",
    "-1",
    "1.5",
    "%00",
    "x",
    "1%0A",
]


@pytest.mark.parametrize(("path", "odd"), list(product(WITH_IDS, ODD_IDS)))
def test_an_id_that_no_row_can_have_is_404(shop: Shop, path: str, odd: str) -> None:
    method = "POST" if path.endswith("cancel") else "GET"
    answer = shop.client.generic(
        method, f"/api/v2/{path.format(odd)}", headers={"Authorization": shop.authorization}
    )
    assert answer.status_code == 404


@pytest.mark.parametrize("path", READ)
def test_head_and_the_slash(shop: Shop, path: str) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account)
    path = path.format(id=parcel.pk, number=parcel.tracking_number)
    plain, slash = shop.get(path), shop.get(f"{path}/")
    assert plain.status_code == slash.status_code == 200
    head = shop.client.head(
        f"/api/v2/{path}", headers={"Authorization": shop.authorization, "Accept": "*/*"}
    )
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "parcels"),
        ("PATCH", "parcels/1"),
        ("GET", "parcels/1/cancel"),
        ("PUT", "labels"),
        ("POST", "tracking/X"),
        ("POST", "user"),
    ],
)
def test_a_method_that_there_is_not_is_405_in_the_shape(shop: Shop, method: str, path: str) -> None:
    answer = shop.client.generic(
        method, f"/api/v2/{path}", headers={"Authorization": shop.authorization}
    )
    assert answer.status_code == 405
    error = answer.json()["error"]
    assert (error["code"], error["request"]) == (405, f"api/v2/{path}")
    assert "GET" in answer["Allow"] or "POST" in answer["Allow"]


FILTERS = [
    *("parcel_status", "tracking_number", "external_reference", "order_number"),
    *("updated_after", "announced_after", "ids", "cursor", "errors"),
]
ODD_VALUES = [
    *("%00", "%F0%9F%93%A6", "%ED%A0%80", "1" * 5000, "-1", "\u0661", "'", "{}", "%"),
    *("0001-01-01T00:00:00%2B23:59", "9999-12-31T23:59:59-23:59", "1e999", "NaN"),
]


@pytest.mark.parametrize(("name", "value"), list(product(FILTERS, ODD_VALUES)))
def test_odd_filters_are_read_or_refused(shop: Shop, name: str, value: str) -> None:
    ParcelFactory.create(account=shop.account)
    answer = shop.get(f"parcels?{name}={value}")
    assert answer.status_code in {200, 400, 404}
    if answer.status_code != 200:
        assert answer.json()["error"]["code"] == answer.status_code


def test_verbose_carrier_errors_are_in_lists_too(shop: Shop) -> None:
    ParcelFactory.create(account=shop.account, status=1002, carrier_error="PostNL: no")
    shown = shop.get("parcels?errors=verbose-carrier").json()["parcels"][0]
    assert shown["errors"] == {"non_field_errors": ["PostNL: no"]}


def test_the_work_of_reading_does_not_grow(shop: Shop, django_assert_num_queries: Any) -> None:
    parcels = LabelledParcelFactory.create_batch(20, account=shop.account)
    # the key and its account, then the parcels
    with django_assert_num_queries(2):
        assert len(shop.get("parcels").json()["parcels"]) == 20
    with django_assert_num_queries(2):
        shop.get(f"parcels/{parcels[0].pk}")
    # and its events, and when it was announced
    with django_assert_num_queries(4):
        shop.get(f"tracking/{parcels[0].tracking_number}")
