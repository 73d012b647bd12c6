"""An account's contracts: their ids can be found, their credentials can't."""

from __future__ import annotations

import pytest

from parcels.models import CarrierContract
from parcels.tests.requests import Shop, body

pytestmark = pytest.mark.django_db


@pytest.fixture
def contract(shop: Shop) -> CarrierContract:
    contract = CarrierContract(account=shop.account, carrier="postnl", name="Big")
    contract.credentials = {"api_key": "hush-hush"}
    contract.save()
    return contract


def test_contracts_are_listed_and_shown(shop: Shop, contract: CarrierContract) -> None:
    page = shop.get("contracts")
    [shown] = page.json()["contracts"]
    assert (page.json()["next"], page.json()["previous"]) == (None, None)
    assert shown["id"] == contract.pk
    assert shown["carrier"] == {"code": "postnl", "name": "PostNL"}
    assert (shown["name"], shown["is_active"], shown["is_default"]) == ("Big", True, True)
    assert shop.get(f"contracts/{contract.pk}").json() == shown
    assert b"hush" not in page.content


def test_an_id_from_the_list_can_be_ordered_with(shop: Shop, contract: CarrierContract) -> None:
    found = shop.get("contracts").json()["contracts"][0]["id"]
    order = body(contract=found, shipment=8, request_label_async=True)
    assert shop.post("parcels", {"parcel": order}).json()["parcel"]["contract"] == contract.pk


@pytest.mark.parametrize(("query", "count"), [("postnl", 1), ("tortoise", 0), ("", 1)])
def test_they_are_filtered_by_carrier(
    shop: Shop, contract: CarrierContract, query: str, count: int
) -> None:
    assert len(shop.get(f"contracts?carrier={query}").json()["contracts"]) == count


def test_a_carrier_that_no_database_takes_is_a_400(shop: Shop) -> None:
    assert shop.get("contracts?carrier=%00").status_code == 400


def test_a_carrier_that_is_no_more_has_its_code_for_a_name(shop: Shop) -> None:
    CarrierContract.objects.create(account=shop.account, carrier="gone")
    [shown] = shop.get("contracts").json()["contracts"]
    assert shown["carrier"] == {"code": "gone", "name": "gone"}
