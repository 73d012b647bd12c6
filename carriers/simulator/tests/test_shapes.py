"""Every wire format against README.md, over real sockets."""

from base64 import b64decode
from typing import Any
from xml.etree import ElementTree

import pytest

from carriers.simulator.latency import fixed
from carriers.simulator.shapes import soap
from carriers.simulator.tests.clients import PRODUCT, RECEIVER, basic, bearer, xml_address

pytestmark = pytest.mark.integration

ALL = list(PRODUCT)


def is_pdf_and_zpl(pdf, zpl):
    return b64decode(pdf).startswith(b"%PDF") and b64decode(zpl).startswith(b"^XA")


async def test_json_label_sells_finds_and_voids(clients):
    answer = await clients.buy("postnl", "r1")
    assert answer.status == 201
    sold = answer.data
    assert set(sold) == {"shipment_id", "reference", "tracking_number", "price", "label"}
    assert sold["tracking_number"].startswith("3SABC")
    assert is_pdf_and_zpl(sold["label"]["pdf"], sold["label"]["zpl"])
    assert await clients.find("postnl", "r1") == [sold]
    assert await clients.find("postnl", "r2") == []
    url = f"{clients.url('postnl')}/shipments/{sold['shipment_id']}"
    assert (await clients.request("DELETE", url, headers=bearer())).status == 204
    assert (await clients.request("DELETE", url, headers=bearer())).status == 409
    assert await clients.find("postnl", "r1") == []
    assert (await clients.request("DELETE", url + "0", headers=bearer())).status == 404


async def test_json_label_lists_a_double_purchase_oldest_first(clients):
    sold = [(await clients.buy("tortoise", "twice")).data for _ in range(2)]
    assert await clients.find("tortoise", "twice") == sold


async def test_json_items_answers_each_item_by_itself(clients):
    items = [
        {"client_id": "good", "product": 20, "to": RECEIVER, "grams": 2000},
        {"client_id": "bad", "product": 20, "to": {**RECEIVER, "city": ""}, "grams": 2000},
        {"client_id": "heavy", "product": 20, "to": RECEIVER, "grams": 5001},
    ]
    answer = await clients.buy_items(items)
    good, bad, heavy = answer.data["results"]
    assert answer.status == 200
    assert good["status"] == "ok"
    assert good["cost"] == "3.10"
    assert is_pdf_and_zpl(good["label_pdf"], good["label_zpl"])
    assert bad["client_id"] == "bad"
    assert bad["error"] == {
        "code": "ADDRESS_INVALID",
        "text": "The address is invalid: city is missing",
    }
    assert heavy["error"]["code"] == "WEIGHT_OUT_OF_RANGE"
    assert clients.booked("bad") == 0


async def test_json_items_returns_the_first_label_again_at_once(clients, simulator):
    first = (await clients.buy("colibri", "c1")).data
    simulator.carriers["colibri"].latency = fixed(3600)
    assert (await clients.buy("colibri", "c1")).data == first
    assert clients.booked("c1") == 1


async def test_json_items_voids_each_item_by_itself(clients):
    barcode = (await clients.buy("colibri", "c1")).data["results"][0]["barcode"]
    answer = await clients.void_items(c2=barcode, c1=barcode)
    assert [result["status"] for result in answer.data["results"]] == ["error", "ok"]
    assert (await clients.void_items(c1=barcode)).data["results"][0]["status"] == "error"


async def test_json_items_voids_the_label_that_is_named(clients):
    barcode = (await clients.buy("colibri", "c1")).data["results"][0]["barcode"]
    for named, status in ((f"{barcode}0", "error"), (barcode, "ok")):
        answer = await clients.void_items(c1=named)
        assert answer.data["results"][0]["status"] == status


async def test_soap_logs_in_sells_and_cancels(clients):
    sold = await clients.buy("lantern", "s1")
    assert sold.status == 200
    assert sold.data.tag == "CreateShipmentResponse"
    assert sold.data.findtext("price") == "12.80"
    assert is_pdf_and_zpl(sold.data.findtext("label_pdf"), sold.data.findtext("label_zpl"))
    number = sold.data.findtext("tracking_number")
    inner = f"<token>{clients.token}</token><tracking_number>{number}</tracking_number>"
    assert (await clients.soap("CancelShipment", inner)).data.tag == "CancelShipmentResponse"
    again = await clients.soap("CancelShipment", inner)
    assert again.status == 500
    assert again.data.findtext("faultcode") == "soap:Client"


async def test_soap_tokens_run_out(clients, monkeypatch):
    monkeypatch.setattr(soap, "_TOKEN_TTL", 0.0)
    answer = await clients.buy("lantern", "s1")
    assert answer.status == 500
    assert answer.data.findtext("faultcode") == "soap:Client.Authentication"
    assert clients.booked("s1") == 0
    monkeypatch.undo()
    clients.token = ""
    assert (await clients.buy("lantern", "s1")).status == 200


async def test_soap_login_says_how_long_its_token_lives(clients):
    answer = await clients.soap("Login", "<username>u</username><password>p</password>")
    assert answer.data.tag == "LoginResponse"
    assert answer.data.findtext("expires_in") == "600"


@pytest.mark.parametrize("reference", ["m1", "tenant/7 & co"])
async def test_two_step_sells_first_and_shows_the_label_afterwards(clients, reference):
    escaped = reference.replace("&", "&amp;")
    assert (await clients.order_label(reference)).status == 404
    sold = await clients.buy("meridian", escaped)
    assert (sold.status, sold.data) == (201, b"")
    url = f"{clients.url('meridian')}{sold.headers['Location']}"
    label = await clients.order_label(reference)
    assert label.status == 200
    assert b'price="5.45"' in label.data
    url += f"?tracking={ElementTree.fromstring(label.data).get('tracking')}"
    assert (await clients.request("DELETE", url, headers=basic())).status == 204
    assert (await clients.request("DELETE", url, headers=basic())).status == 409
    assert (await clients.order_label(reference)).status == 404
    for missing in (url + "0", url.partition("?")[0]):
        assert (await clients.request("DELETE", missing, headers=basic())).status == 404


async def test_two_step_shows_the_oldest_and_names_the_others_of_a_double_purchase(clients):
    for _ in range(3):
        await clients.buy("meridian", "twice")
    first, second, third = clients.simulator.bookings.live("meridian", "twice")
    shown = ElementTree.fromstring((await clients.order_label("twice")).data)
    assert shown.get("tracking") == first.tracking_number
    assert shown.get("others") == f"{second.tracking_number} {third.tracking_number}"
    url = f"{clients.url('meridian')}/orders/twice"
    named = f"{url}?tracking={first.tracking_number}"
    answers = [(await clients.request("DELETE", named, headers=basic())).status for _ in range(2)]
    assert answers == [204, 409]
    shown = ElementTree.fromstring((await clients.order_label("twice")).data)
    assert (shown.get("tracking"), shown.get("others")) == (
        second.tracking_number,
        third.tracking_number,
    )


async def test_two_step_voids_no_other_reference_s_label(clients):
    for reference in ("one", "two"):
        await clients.buy("meridian", reference)
    (other,) = clients.simulator.bookings.live("meridian", "two")
    for number in (other.tracking_number, "MM0", ""):
        url = f"{clients.url('meridian')}/orders/one?tracking={number}"
        assert (await clients.request("DELETE", url, headers=basic())).status == 404
    assert not other.voided


REFUSED: dict[str, dict[str, Any]] = {
    "missing": {"receiver": {"postal_code": ""}},
    "country": {"receiver": {"country": "AQ"}},
    "product": {"product": 999},
    "weight": {"grams": 70_001},
    "nothing weighed": {"grams": 0},
}


def refusal_code(code, answer):
    if code == "colibri":
        return answer.status, answer.data["results"][0]["error"]["code"]
    if code == "lantern":
        assert answer.data.findtext("faultcode") == "soap:Client"
        return answer.status, answer.data.findtext("detail/code")
    if code == "meridian":
        return answer.status, answer.data.decode().split('code="')[1].split('"')[0]
    return answer.status, answer.data["code"]


@pytest.mark.parametrize("code", ALL)
@pytest.mark.parametrize("case", list(REFUSED))
async def test_documented_refusals_in_every_shape(clients, code, case):
    answer = await clients.buy(code, "r1", **REFUSED[case])
    status, word = refusal_code(code, answer)
    expected = {"missing": "ADDRESS_INVALID", "country": "COUNTRY_NOT_SERVED"}
    assert word == expected.get(
        case, "PRODUCT_UNKNOWN" if case == "product" else "WEIGHT_OUT_OF_RANGE"
    )
    assert status == {"colibri": 200, "lantern": 500, "meridian": 400}.get(code, 422)
    assert clients.booked("r1") == 0


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer invalid"}, basic()])
async def test_bearer_tokens_are_asked_for(clients, headers):
    url = f"{clients.url('postnl')}/shipments"
    for method in ("GET", "POST"):
        answer = await clients.request(method, url, headers=headers)
        assert (answer.status, answer.data["code"]) == (401, "UNAUTHORIZED")


async def test_the_other_credentials_are_asked_for(clients):
    labels = f"{clients.url('colibri')}/v1/labels"
    assert (await clients.request("POST", labels, json={})).status == 401
    orders = f"{clients.url('meridian')}/orders"
    for headers in ({}, bearer(), basic("user:"), basic("user:invalid"), basic("ü"),
                    {"Authorization": "Basic ü"}):  # fmt: skip
        answer = await clients.request("POST", orders, headers=headers)
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Basic")
    login = await clients.soap("Login", "<username>u</username><password>invalid</password>")
    assert login.data.findtext("faultcode") == "soap:Client.Authentication"


BOMB = b'<!DOCTYPE x [<!ENTITY a "aaaa">]><order reference="&a;"/>'
GOOD_ORDER = f"<receiver>{xml_address(RECEIVER)}</receiver>"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"reference": "r", "product": 8, "weight_g": 1}',
        b'{"reference": 7, "product": 8, "weight_g": 1, "receiver": {}}',
        b'{"reference": "\\ud800", "product": 8, "weight_g": 1, "receiver": {}}',
        b'{"reference": "r", "product": true, "weight_g": 1, "receiver": {}}',
        b'{"reference": "r", "product": 8, "weight_g": 1e400, "receiver": {}}',
        b'{"reference": "r", "product": 8, "weight_g": 1, "receiver": {"name": []}}',
        b'{"items": [{"client_id": {}, "to": {}}]}',
        b'{"items": [7]}',
        BOMB,
        f'<order reference="\u00e9" product="40" grams="1">{GOOD_ORDER}</order>'.encode(),
        f'<order reference="r" product="4x" grams="1">{GOOD_ORDER}</order>'.encode(),
        b'<?xml version="1.0" encoding="nonsense"?><order/>',
        b'<order reference="r" product="40" grams="1"/>',
    ],
)
async def test_no_body_makes_a_carrier_fail(clients, body):
    for code, path in (("postnl", "shipments"), ("meridian", "orders"), ("colibri", "v1/labels")):
        headers = basic() if code == "meridian" else {**bearer(), "X-Api-Key": "k"}
        url = f"{clients.url(code)}/{path}"
        assert (await clients.request("POST", url, data=body, headers=headers)).status == 400
    url = f"{clients.url('lantern')}/soap"
    for action in ("CreateShipment", "Nonsense"):
        answer = await clients.request("POST", url, data=body, headers={"SOAPAction": action})
        assert answer.status == 500
        assert b"soap:Client" in answer.data


@pytest.mark.parametrize("code", ALL)
@pytest.mark.parametrize("name", ["北京 & <b>", "a\u2028b", "Ł" * 300])
async def test_any_name_is_taken(clients, code, name):
    if code in ("lantern", "meridian"):
        name = name.replace("&", "&amp;").replace("<", "&lt;")
    answer = await clients.buy(code, "r1", receiver={"name": name})
    assert answer.status in (200, 201)
    assert clients.booked("r1") == 1


async def test_half_a_surrogate_pair_is_taken(clients):
    assert (await clients.buy("postnl", "r1", receiver={"name": "\ud800"})).status == 201


async def test_a_lookup_can_lag(clients):
    await clients.control("PUT", "/carriers/postnl", {"lookup_lag": 3600})
    assert (await clients.buy("postnl", "r1")).status == 201
    assert await clients.find("postnl", "r1") == []
    await clients.control("PUT", "/carriers/postnl", {"lookup_lag": 0})
    assert len(await clients.find("postnl", "r1")) == 1


async def test_a_label_that_went_on_its_way_cannot_be_voided(clients):
    sold = (await clients.buy("postnl", "r1")).data
    await clients.control("POST", f"/tracking/{sold['tracking_number']}/advance")
    url = f"{clients.url('postnl')}/shipments/{sold['shipment_id']}"
    assert (await clients.request("DELETE", url, headers=bearer())).status == 409
