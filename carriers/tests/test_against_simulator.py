"""Every adapter against the simulated carrier of its format: what one writes the other reads."""

from dataclasses import replace
from decimal import Decimal

import pytest

from carriers.messages import Address, Consignment, Purchase
from carriers.outcomes import Absent, Announced, Answered, Found, Refused, Voided
from carriers.registry import CARRIERS, SHIPPING_METHODS
from carriers.simulator.catalogue import CATALOGUE
from carriers.simulator.latency import fixed
from carriers.simulator.settings import Address as Listen
from carriers.simulator.settings import Settings
from carriers.simulator.simulator import Simulator
from carriers.transport_async import perform

pytestmark = pytest.mark.integration

EACH = pytest.mark.parametrize("adapter", CARRIERS.values(), ids=lambda adapter: adapter.code)
CREDENTIALS = {"api_key": "k", "username": "u", "password": "p"}
PERSON = Address(
    name="Zoë <Receiver>",
    street="Havenstraat",
    house_number="12",
    postal_code="3511 AB",
    city="Utrecht",
    country="NL",
)


@pytest.fixture
async def talk(tmp_path):
    settings = Settings(
        control=Listen("127.0.0.1", 0, "SIMULATOR_URL"),
        carriers={code: Listen("127.0.0.1", 0, code) for code in CATALOGUE},
        latency={code: fixed(0) for code in CATALOGUE},
        ledger=tmp_path / "ledger.jsonl",
    )
    simulator = Simulator(settings)
    await simulator.start()

    async def talk(code, steps):
        return await perform(steps, simulator.listeners[code].url, 10.0, 2.0)

    yield talk
    await simulator.stop()


def consignment(adapter, company=""):
    product = str(adapter.methods[0].id)
    receiver = replace(PERSON, company=company)
    return Consignment(f"ref/{adapter.code} 1", product, receiver, PERSON, 500, CREDENTIALS)


@EACH
async def test_a_label_is_bought_found_and_voided(adapter, talk):
    parcel = consignment(adapter)
    if adapter.repeats == "lookup":
        assert await talk(adapter.code, adapter.lookup(parcel.reference, CREDENTIALS)) == Absent()
    bought = await talk(adapter.code, adapter.announce(parcel))
    assert isinstance(bought, Announced)
    assert [document.format for document in bought.documents] == ["pdf", "zpl"]
    if adapter.repeats == "lookup":
        found = await talk(adapter.code, adapter.lookup(parcel.reference, CREDENTIALS))
        assert found == Found((bought,))
    if adapter.repeats == "dedup":
        again = await talk(adapter.code, adapter.announce(parcel))
        assert again.tracking_number == bought.tracking_number
    purchase = Purchase(parcel.reference, bought.carrier_id, bought.tracking_number)
    assert await talk(adapter.code, adapter.void(purchase, CREDENTIALS)) == Voided()
    again = await talk(adapter.code, adapter.void(purchase, CREDENTIALS))
    assert isinstance(again, Refused)


@EACH
async def test_a_label_belongs_to_the_credentials_that_bought_it(adapter, talk):
    parcel = consignment(adapter)
    bought = await talk(adapter.code, adapter.announce(parcel))
    others = {name: f"other {value}" for name, value in CREDENTIALS.items()}
    purchase = Purchase(parcel.reference, bought.carrier_id, bought.tracking_number)
    assert isinstance(await talk(adapter.code, adapter.void(purchase, others)), Refused)
    if adapter.repeats == "lookup":
        assert await talk(adapter.code, adapter.lookup(parcel.reference, others)) == Absent()
    if adapter.repeats == "dedup":
        again = await talk(adapter.code, adapter.announce(replace(parcel, credentials=others)))
        assert again.tracking_number != bought.tracking_number
    assert await talk(adapter.code, adapter.void(purchase, CREDENTIALS)) == Voided()


async def test_a_second_label_of_meridian_is_seen_and_voided(talk):
    adapter = CARRIERS["meridian"]
    parcel = consignment(adapter)
    for _ in range(2):
        await talk(adapter.code, adapter.announce(parcel))
    found = await talk(adapter.code, adapter.lookup(parcel.reference, CREDENTIALS))
    first, second = found.announced
    purchase = Purchase(parcel.reference, second.carrier_id, second.tracking_number)
    assert await talk(adapter.code, adapter.void(purchase, CREDENTIALS)) == Voided()
    found = await talk(adapter.code, adapter.lookup(parcel.reference, CREDENTIALS))
    assert found == Found((first,))


@EACH
async def test_a_refusal_and_a_probe_are_understood(adapter, talk):
    refused = await talk(adapter.code, adapter.announce(consignment(adapter, "SIM:REFUSE")))
    assert isinstance(refused, Refused)
    assert refused.message
    assert not refused.credentials
    assert await talk(adapter.code, adapter.probe(CREDENTIALS)) == Answered()


@EACH
async def test_missing_credentials_are_told_from_a_bad_parcel(adapter, talk):
    parcel = replace(consignment(adapter), credentials={})
    refused = await talk(adapter.code, adapter.announce(parcel))
    assert isinstance(refused, Refused)
    assert refused.credentials


def test_the_catalogues_agree():
    products = {
        id_: product for spec in CATALOGUE.values() for id_, product in spec.products.items()
    }
    assert set(products) == set(SHIPPING_METHODS)
    for id_, product in products.items():
        method = SHIPPING_METHODS[id_]
        assert (method.name, method.price) == (product.name, product.price)
        assert product.low <= Decimal(method.min_weight) * 1000
        assert product.high == Decimal(method.max_weight) * 1000
