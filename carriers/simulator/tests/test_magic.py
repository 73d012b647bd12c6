import pytest

from carriers.simulator.call import Call
from carriers.simulator.magic import Magic, refuse_if_asked
from carriers.simulator.parcel import Refusal, parcel_from
from carriers.simulator.tests.clients import PRODUCT, RECEIVER


def asked(company, reference="r1", magic=None):
    parcel = parcel_from(reference, 8, 2000, {**RECEIVER, "company": company})
    call = Call("buy", reference, (parcel,))
    return [fault.kind for fault in (magic or Magic()).faults_for(call)]


def refusal(company):
    parcel = parcel_from("r1", 8, 2000, {**RECEIVER, "company": company})
    try:
        refuse_if_asked(parcel)
    except Refusal as refused:
        return refused.code, refused.message
    return None


@pytest.mark.parametrize("company", ["", "ACME", "SIMON: Ltd", "the SIM:HANG company"])
def test_companies_are_companies(company):
    assert asked(company) == []
    assert refusal(company) is None


@pytest.mark.parametrize(
    ("company", "kind"),
    [
        ("SIM:HANG", "hang"),
        ("sim:hang ", "hang"),
        ("SIM:SLOW:5", "slow"),
        ("SIM:ERROR:503", "error"),
        ("SIM:RESET_AFTER", "reset_after"),
        ("SIM:TRUNCATE", "truncate"),
        ("SIM:THROTTLE:2", "throttle"),
        ("SIM:LATE_COMMIT:0.5!", "late_commit"),
    ],
)
def test_a_magic_value_is_a_fault(company, kind):
    assert asked(company) == [kind]
    assert refusal(company) is None


def test_only_the_first_call_fails_unless_each_is_asked_to():
    magic = Magic()
    assert [asked("SIM:ERROR", "once", magic) for _ in range(2)] == [["error"], []]
    assert [asked("SIM:ERROR!", "each", magic) for _ in range(2)] == [["error"], ["error"]]


def test_refuse_is_the_documented_refusal():
    assert asked("SIM:REFUSE") == []
    assert refusal("SIM:REFUSE") == ("ADDRESS_INVALID", "The address is invalid")
    assert refusal("SIM:REFUSE!") == ("ADDRESS_INVALID", "The address is invalid")


@pytest.mark.parametrize(
    "company", ["SIM:", "SIM:HNAG", "SIM:FLAP", "SIM:SLOW:soon", "SIM:SLOW:-1", "SIM:CORRUPT:1"]
)
def test_a_slip_is_refused_by_name_and_not_ignored(company):
    assert asked(company) == []
    assert refusal(company)[0] == "MAGIC_UNKNOWN"


@pytest.mark.integration
@pytest.mark.parametrize("code", list(PRODUCT))
async def test_a_parcel_can_ask_for_a_failure_and_see_the_recovery(clients, code):
    assert (await clients.buy(code, "r1", "SIM:ERROR:503")).status == 503
    assert clients.booked("r1") == 0
    assert (await clients.buy(code, "r1", "SIM:ERROR:503")).status in (200, 201)
    assert clients.booked("r1") == 1


@pytest.mark.integration
async def test_each_item_of_a_call_has_its_own_failure_once(clients):
    one, other = (
        {"client_id": company, "product": 20, "grams": 1, "to": {**RECEIVER, "company": company}}
        for company in ("SIM:SLOW:0", "SIM:ERROR")
    )
    assert (await clients.buy_items([one, other])).status == 500
    assert (await clients.buy_items([other])).data["results"][0]["status"] == "ok"


@pytest.mark.integration
async def test_one_item_can_ask_for_its_own_refusal(clients):
    items = [
        {"client_id": company, "product": 20, "grams": 1, "to": {**RECEIVER, "company": company}}
        for company in ("ACME", "SIM:REFUSE")
    ]
    results = (await clients.buy_items(items)).data["results"]
    assert [result["status"] for result in results] == ["ok", "error"]
    assert results[1]["error"]["text"] == "The address is invalid"
