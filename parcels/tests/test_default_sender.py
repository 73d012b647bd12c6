"""What says not where it comes from is sent from the account's default address."""

import io
from typing import Any

import pytest
from pypdf import PdfReader

from parcels.models import Account, Parcel, SenderAddress
from parcels.papers.customs import customs_paper
from parcels.tests.factories import sender
from parcels.tests.requests import Shop, body

pytestmark = pytest.mark.django_db
ANNOUNCED = {"request_label_async": True, "shipment": {"id": 8}}
OWN = {
    "from_name": "Klant",
    "from_address_1": "Dorpsstraat",
    "from_city": "Gent",
    "from_postal_code": "9000",
    "from_country": "BE",
}


def address_of(account: Account, **changes: Any) -> SenderAddress:
    values = {"company_name": "Kade B.V.", "contact_name": "Magazijn", "street": "Kanaalweg"}
    values |= {"postal_code": "3526 KL", "city": "Utrecht", "country": "NL", "telephone": "030-1"}
    return SenderAddress.objects.create(account=account, **values | changes)


@pytest.fixture
def address(shop: Shop) -> SenderAddress:
    return address_of(shop.account)


def made(shop: Shop, **fields: Any) -> Parcel:
    answer = shop.post("parcels", {"parcel": body(**ANNOUNCED | fields)})
    assert answer.status_code == 200, answer.content
    return Parcel.objects.latest("pk")


def test_the_first_address_is_the_default_until_another_is_chosen(
    shop: Shop, address: SenderAddress
) -> None:
    other = address_of(shop.account, city="Delft")
    shop.account.refresh_from_db()
    assert shop.account.sender_address == address
    Account.objects.update(sender_address=other)
    assert sender(made(shop)).city == "Delft"
    assert shop.get("user").json()["user"]["city"] == "Delft"


def test_a_label_has_the_default_address(
    shop: Shop, no_broker: list[Any], address: SenderAddress
) -> None:
    consigned = sender(made(shop))
    assert (consigned.company, consigned.street) == ("Kade B.V.", "Kanaalweg")
    assert (consigned.city, consigned.country) == ("Utrecht", "NL")


def test_customs_papers_have_it_too(shop: Shop, address: SenderAddress) -> None:
    item = {"description": "Book", "value": 3, "weight": "0.4", "hs_code": "4901"}
    parcel = made(shop, country="CH", parcel_items=[item | {"origin_country": "NL"}])
    pages = PdfReader(io.BytesIO(customs_paper("cn23", parcel))).pages
    assert "Kanaalweg" in pages[0].extract_text()


def test_it_stays_as_it_was_when_announced(shop: Shop, address: SenderAddress) -> None:
    parcel = made(shop)
    SenderAddress.objects.update(city="Delft")
    parcel.refresh_from_db()
    assert sender(parcel).city == "Utrecht"


def test_an_address_of_its_own_is_not_mixed_with_it(shop: Shop, address: SenderAddress) -> None:
    consigned = sender(made(shop, **OWN))
    assert (consigned.name, consigned.company, consigned.city) == ("Klant", "", "Gent")


def test_what_else_it_says_of_itself_wins(shop: Shop, address: SenderAddress) -> None:
    consigned = sender(made(shop, from_telephone="030-9"))
    assert (consigned.phone, consigned.street) == ("030-9", "Kanaalweg")


@pytest.mark.parametrize("chosen", [True, False])
def test_blanks_leave_it_as_it_is(shop: Shop, address: SenderAddress, chosen: bool) -> None:
    named = {"sender_address": address.pk} if chosen else {}
    assert sender(made(shop, from_company_name="", **named)).company == "Kade B.V."


def test_a_return_must_still_say_where_it_comes_from(shop: Shop, address: SenderAddress) -> None:
    answer = shop.post("parcels", {"parcel": body(**ANNOUNCED, is_return=True)})
    assert answer.status_code == 400
    assert "from_city" in answer.json()["error"]["message"]


def test_a_stored_parcel_gets_it_when_it_is_announced(shop: Shop, address: SenderAddress) -> None:
    stored = shop.post("parcels", {"parcel": body()}).json()["parcel"]["id"]
    assert Parcel.objects.get(pk=stored).from_address == {}
    shop.put("parcels", {"parcel": {"id": stored, **ANNOUNCED}})
    assert sender(Parcel.objects.get(pk=stored)).street == "Kanaalweg"


def test_a_repeated_reference_gets_it_when_it_is_announced(
    shop: Shop, address: SenderAddress
) -> None:
    order = body(external_reference="A", shipment={"id": 8})
    shop.post("parcels", {"parcel": order})
    shop.post("parcels", {"parcel": order | ANNOUNCED})
    assert sender(Parcel.objects.get()).street == "Kanaalweg"


def test_without_an_address_the_account_s_name_stays(shop: Shop) -> None:
    assert sender(made(shop)).name == shop.account.name


def test_it_costs_no_statement(
    shop: Shop, address: SenderAddress, django_assert_num_queries: Any
) -> None:
    # key with account and address, savepoint, parcels, announcements, release of the savepoint
    with django_assert_num_queries(5):
        shop.post("parcels", {"parcel": body(**ANNOUNCED)})
