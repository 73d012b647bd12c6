"""An account's contracts: their ids can be found, their credentials can't."""

import json
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core import serializers
from django.core.management import CommandError, call_command
from django.core.serializers.base import DeserializationError
from django.test import Client

from parcels.admin import ContractForm
from parcels.models import CarrierContract
from parcels.tests.requests import Shop, body

pytestmark = pytest.mark.django_db
ADMIN = "/admin/parcels/carriercontract/"


@pytest.fixture
def contract(shop: Shop) -> CarrierContract:
    contract = CarrierContract(account=shop.account, carrier="postnl", name="Big")
    contract.credentials = {"api_key": "hush-hush"}
    contract.save()
    return contract


@pytest.fixture
def operator(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("operator"))
    return client


def typed(contract: CarrierContract, **changes: Any) -> dict[str, Any]:
    """Return the admin's form for another contract of the same account and carrier."""
    form = {"account": contract.account_id, "carrier": contract.carrier, "name": "New"}
    return form | {"credentials": '{"api_key": "n"}', "is_default": "on"} | changes


def defaults() -> set[str]:
    return set(CarrierContract.objects.filter(is_default=True).values_list("name", flat=True))


def test_contracts_are_listed_and_shown(shop: Shop, contract: CarrierContract) -> None:
    page = shop.get("contracts")
    [shown] = page.json()["contracts"]
    assert (page.json()["next"], page.json()["previous"]) == (None, None)
    assert shown["id"] == contract.pk
    assert shown["carrier"] == {"code": "postnl", "name": "PostNL"}
    assert (shown["name"], shown["is_active"], shown["is_default"]) == ("Big", True, True)
    assert shop.get(f"contracts/{contract.pk}").json() == shown
    assert b"hush" not in page.content


def test_one_keeps_its_account_and_carrier_in_the_admin(
    contract: CarrierContract, other_shop: Shop, operator: Client
) -> None:
    """The first account's parcels would be bought on the other's credentials."""
    form = typed(contract, account=other_shop.account.pk, carrier="colibri")
    assert operator.post(f"{ADMIN}{contract.pk}/change/", form).status_code == 302
    before = contract.account, contract.carrier
    contract.refresh_from_db()
    assert (contract.account, contract.carrier, contract.name) == (*before, "New")


def test_a_fixture_brings_credentials_back_and_shows_none(contract: CarrierContract) -> None:
    """As `dumpdata` writes one and `loaddata` reads it, into another database."""
    fixture = serializers.serialize("json", [contract])
    assert "hush" not in fixture
    [loaded] = serializers.deserialize("json", fixture)
    loaded.save()
    contract.refresh_from_db()
    assert contract.credentials == {"api_key": "hush-hush"}


def test_a_fixture_of_another_secret_key_brings_no_other_credentials(
    contract: CarrierContract, settings: Any
) -> None:
    fixture, former = serializers.serialize("json", [contract]), settings.SECRET_KEY
    settings.SECRET_KEY = "another" * 10
    with pytest.raises(DeserializationError, match="No key decrypts it"):
        list(serializers.deserialize("json", fixture))
    settings.SECRET_KEY_FALLBACKS = [former]
    [loaded] = serializers.deserialize("json", fixture)
    loaded.save()
    contract.refresh_from_db()
    assert contract.credentials == {"api_key": "hush-hush"}


def test_what_no_key_decrypts_is_named(contract: CarrierContract, settings: Any) -> None:
    settings.SECRET_KEY = "another" * 10
    named = f"no key decrypts credentials of carrier contract {contract.pk}$"
    with pytest.raises(CommandError, match=named):
        call_command("dumpdata", "parcels.carriercontract", stdout=StringIO())


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


def test_a_new_default_takes_the_former_one_s_place(
    operator: Client, contract: CarrierContract
) -> None:
    """An announcement between the two would be bought with our own credentials."""
    colibri = CarrierContract.objects.create(
        account=contract.account, carrier="colibri", name="Small"
    )
    answer = operator.post(f"{ADMIN}add/", typed(contract), follow=True)
    assert "replaces postnl" in answer.content.decode()
    assert defaults() == {"New", colibri.name}
    operator.post(f"{ADMIN}{contract.pk}/change/", typed(contract, name="Big"))
    assert defaults() == {"Big", colibri.name}
    operator.post(f"{ADMIN}add/", typed(contract, name="Third", is_default=""))
    assert defaults() == {"Big", colibri.name}
    operator.get(ADMIN)  # shows what was said so far
    page = operator.post(f"{ADMIN}{contract.pk}/change/", typed(contract), follow=True)
    assert "replaces" not in page.content.decode()


def test_a_contract_is_with_a_carrier_that_there_is(
    operator: Client, contract: CarrierContract
) -> None:
    answer = operator.post(f"{ADMIN}add/", typed(contract, carrier="post_nl"))
    assert answer.status_code == 200
    assert list(answer.context["adminform"].form.errors) == ["carrier"]


def test_a_contract_of_a_carrier_that_is_no_more_keeps_it(
    operator: Client, contract: CarrierContract
) -> None:
    CarrierContract.objects.update(carrier="gone")
    contract.refresh_from_db()
    answer = operator.post(f"{ADMIN}{contract.pk}/change/", typed(contract))
    assert answer.status_code == 302, answer.context["errors"]
    assert CarrierContract.objects.get().carrier == "gone"


@pytest.mark.parametrize("permission", ["view", "change"])
def test_no_operator_is_shown_credentials(
    client: Client, contract: CarrierContract, permission: str
) -> None:
    operator = User.objects.create_user("looks", is_staff=True)
    name = f"{permission}_carriercontract"
    operator.user_permissions.set(Permission.objects.filter(codename=name))
    client.force_login(operator)
    page = client.get(f"{ADMIN}{contract.pk}/change/").content.decode()
    assert "api_key: ••••••" in page
    assert "hush" not in page
    assert ('name="credentials"' in page) is (permission == "change")


def entered(shop: Shop, credentials: Any) -> ContractForm:
    given = {"account": shop.account.pk, "carrier": "postnl", "name": ""}
    return ContractForm({**given, "credentials": json.dumps(credentials)})


@pytest.mark.parametrize("value", [123, None, True, ["k"], {"key": "k"}])
def test_credentials_are_texts(shop: Shop, value: Any) -> None:
    """A carrier's adapter raises on others, when the row is claimed already."""
    assert list(entered(shop, {"api_key": value}).errors) == ["credentials"]


def test_blanks_around_credentials_are_dropped(shop: Shop) -> None:
    form = entered(shop, {"api_key": " hush hush\n"})
    assert form.is_valid(), form.errors
    assert form.cleaned_data["credentials"] == {"api_key": "hush hush"}


def test_credentials_that_are_not_typed_are_shown_empty_and_kept(contract: CarrierContract) -> None:
    shown = ContractForm(instance=contract)["credentials"].value()
    assert not shown
    form = ContractForm(typed(contract, credentials=shown), instance=contract)
    assert "credentials" not in form.changed_data
    assert form.is_valid(), form.errors
    assert form.save().credentials == {"api_key": "hush-hush"}
