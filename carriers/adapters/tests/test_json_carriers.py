"""PostNL, Tortoise Post and Colibri Express: tables of answers and what they mean."""

import json

import pytest

from carriers.messages import Purchase
from carriers.outcomes import Absent, Announced, Found, Refused, Throttled, Unknown, Voided
from carriers.registry import CARRIERS
from carriers.tests.bodies import DOCUMENTS, PDF64, ZPL64, drive, response
from carriers.tests.transport_cases import CONSIGNMENT

CREDENTIALS = CONSIGNMENT.credentials
PURCHASE = Purchase("ref-1", "S/1", "T1")
LABEL = Announced("S1", "3SABC1", DOCUMENTS)
BODY = {
    "shipment_id": "S1",
    "reference": "ref-1",
    "tracking_number": "3SABC1",
    "price": "4.25",
    "label": {"pdf": PDF64, "zpl": ZPL64},
}


def body(**changes):
    return {**BODY, **changes}


POSTED = [
    (response(201, BODY), LABEL, "bought"),
    (response(201, body(price=None)), LABEL, "a price is the invoice's business"),
    (response(201, body(price="on request")), LABEL, "likewise"),
    (response(201, body(reference="ref-2")), "unreadable", "another parcel's label"),
    (response(201, body(label={"pdf": "JVBE*"})), "unreadable", "no base64"),
    (response(201, body(label={"pdf": ZPL64})), "unreadable", "no PDF"),
    (response(201, body(label={"pdf": PDF64[:32]})), "unreadable", "half a PDF"),
    (response(201, body(label={"pdf": PDF64, "zpl": PDF64})), "unreadable", "no ZPL"),
    (response(201, body(label=None)), "unreadable", "no label"),
    (response(201, body(tracking_number="")), "unreadable", "nothing to track"),
    (response(201, json.dumps(BODY)[:80]), "unreadable", "cut"),
    (response(201, []), "unreadable", "a list"),
    (
        response(201, json.dumps(BODY).replace('"price"', '"reference": "ref-1", "price"')),
        "unreadable",
        "a name that comes twice",
    ),
    (response(201, "[" * 100_000), "unreadable", "too deep"),
    (response(201), "unreadable", "empty"),
    (
        response(422, {"code": "ADDRESS_INVALID", "message": "no"}),
        Refused("ADDRESS_INVALID", "no"),
        "",
    ),
    (response(422, "<html>"), "unreadable", "some proxy's"),
    (
        response(401, {"code": "UNAUTHORIZED", "message": "?"}),
        Refused("credentials", "?", True),
        "",
    ),
    (response(429, {"code": "THROTTLED"}, Retry_After="3"), Throttled(3.0, True), "promised"),
    (response(500, {"code": "OOPS"}), "server_error", "whatever it says"),
    (response(408), "timeout", ""),
]


@pytest.mark.parametrize("code", ["postnl", "tortoise"])
@pytest.mark.parametrize(("answer", "expected", "remark"), POSTED)
def test_an_announcement(code, answer, expected, remark):
    requests, outcome = drive(CARRIERS[code].announce(CONSIGNMENT), answer)
    assert len(requests) == 1
    if isinstance(expected, str):
        assert isinstance(outcome, Unknown), remark
        assert outcome.reason == expected, remark
    else:
        assert outcome == expected, remark


def test_the_request_is_what_the_wire_format_says():
    request = next(CARRIERS["postnl"].announce(CONSIGNMENT))
    sent = json.loads(request.body)
    assert (request.method, request.path, request.acts) == ("POST", "/shipments", True)
    assert request.headers["Authorization"] == "Bearer k"
    assert set(sent) == {"reference", "product", "receiver", "sender", "weight_g"}
    assert (sent["reference"], sent["product"], sent["weight_g"]) == ("ref-1", "8", 500)
    assert list(sent["receiver"]) == [
        *("name", "company", "street", "house_number", "street_2", "postal_code"),
        *("city", "state", "country", "email", "phone"),
    ]


LOOKED_UP = [
    (response(200, {"shipments": [BODY]}), Found((LABEL,)), "adopt it"),
    (
        response(200, {"shipments": [BODY, body(shipment_id="S2")]}),
        Found((LABEL, Announced("S2", "3SABC1", DOCUMENTS))),
        "several, oldest first",
    ),
    (response(200, {"shipments": []}), Absent(), "nothing there"),
    (response(200, {"shipments": [], "next": None}), Absent(), "nor anything else"),
    (response(200, {"shipments": [], "next": "?page=2"}), "unreadable", "another page"),
    (response(200, {"shipments": [], "errors": ["shard 3"]}), "unreadable", "a part of it"),
    (response(200, {"shipments": [], "code": "DOWN"}), "unreadable", "an error"),
    (
        response(200, f'{{"shipments": [{json.dumps(BODY)}], "shipments": []}}'),
        "unreadable",
        "a name that comes twice",
    ),
    (response(200, {}), "unreadable", "no list is not an empty list"),
    (response(200, {"shipments": [body(reference="ref-2")]}), "unreadable", "another's"),
    (response(404), "unreadable", "no absence: this list answers 200"),
    (response(401), "credentials", "can't say"),
    (response(429), "throttled", "can't say"),
    (
        response(429, Retry_After="9"),
        Unknown("throttled", "HTTP 429 to a lookup", 9.0),
        "but when to ask again",
    ),
    (response(500), "server_error", "can't say"),
]


@pytest.mark.parametrize(("answer", "expected", "remark"), LOOKED_UP)
def test_a_lookup(answer, expected, remark):
    _, outcome = drive(CARRIERS["postnl"].lookup("ref-1", CREDENTIALS), answer)
    if isinstance(expected, str):
        assert isinstance(outcome, Unknown), remark
        assert outcome.reason == expected, remark
    else:
        assert outcome == expected, remark


def test_a_reference_is_quoted():
    request = next(CARRIERS["postnl"].lookup("ref/1&é", CREDENTIALS))
    assert request.path == "/shipments?reference=ref%2F1%26%C3%A9"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (response(204), Voided()),
        (response(404), Refused("NOT_FOUND", "the carrier doesn't know this label")),
        (response(409), Refused("NOT_VOIDABLE", "already voided or on its way")),
        (response(500), Unknown("server_error", "HTTP 500")),
    ],
)
def test_a_void(answer, expected):
    (request,), outcome = drive(CARRIERS["postnl"].void(PURCHASE, CREDENTIALS), answer)
    assert (request.method, request.path) == ("DELETE", "/shipments/S%2F1")
    assert outcome == expected


ITEM = {
    "client_id": "ref-1",
    "status": "ok",
    "barcode": "CX1",
    "cost": "3.10",
    "label_pdf": PDF64,
    "label_zpl": ZPL64,
}
COLIBRI_LABEL = Announced("ref-1", "CX1", DOCUMENTS)
ERROR = {"client_id": "ref-1", "status": "error", "error": {"code": "ZIP", "text": "bad"}}
DUPLICATE = {"code": "DUPLICATE_REFERENCE", "text": "?", "message": "?"}
REFUSED = Refused("ZIP", "bad")


def results(*items):
    return {"results": list(items)}


COLIBRI = [
    (response(200, results(ITEM)), COLIBRI_LABEL, ""),
    (response(200, results({**ITEM, "cost": "free"})), COLIBRI_LABEL, "no price is read"),
    (response(200, results(ERROR)), Refused("ZIP", "bad"), "the item's refusal under a 200"),
    (response(200, results({**ITEM, "client_id": "ref-2"})), "unreadable", "another's"),
    (response(200, results(ITEM, ITEM)), "unreadable", "one was asked for"),
    (response(200, results()), "unreadable", "none was answered"),
    (response(200, results({**ITEM, "status": "queued"})), "unreadable", "undocumented"),
    (response(200, results({**ERROR, "error": {}})), "unreadable", "an error without a code"),
    (response(200, results({**ERROR, "error": None})), "unreadable", "nor an error"),
    (response(200, results({**ERROR, "error": DUPLICATE})), "conflict", "sold before"),
    (response(409, DUPLICATE), "conflict", "likewise"),
    (response(200, results({**ERROR, "barcode": "CX1"})), "unreadable", "refused, and sold?"),
    (response(200, results({**ERROR, "label_pdf": PDF64})), "unreadable", "likewise"),
    (response(200, results({**ERROR, "label_zpl": ZPL64})), "unreadable", "likewise"),
    (response(200, results({**ERROR, "barcode": None, "label_pdf": ""})), REFUSED, "empty"),
    (response(429, Retry_After="2"), Throttled(2.0, True), "promised"),
    (response(403, {"code": "KEY", "message": "?"}), Refused("credentials", "?", True), ""),
    (response(403, {}), "credentials", "a firewall may have filtered the answer"),
]


@pytest.mark.parametrize("code", ["postnl", "tortoise", "colibri"])
def test_a_blank_behind_a_key_is_not_sent(code):
    headers = CARRIERS[code].build_probe({"api_key": "k \n"}).headers
    assert (headers.get("X-Api-Key") or headers["Authorization"]).endswith("k")


@pytest.mark.parametrize(("answer", "expected", "remark"), COLIBRI)
def test_colibri_answers_per_item(answer, expected, remark):
    (request,), outcome = drive(CARRIERS["colibri"].announce(CONSIGNMENT), answer)
    item = json.loads(request.body)["items"][0]
    assert set(item) == {"client_id", "product", "to", "from", "grams"}
    assert request.headers["X-Api-Key"] == "k"
    if isinstance(expected, str):
        assert outcome.reason == expected, remark
    else:
        assert outcome == expected, remark


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (response(200, results({"client_id": "ref-1", "status": "ok"})), Voided()),
        (response(200, results(ERROR)), Refused("ZIP", "bad")),
        (
            response(200, results({"client_id": "ref-1", "status": "error"})),
            Refused("NOT_VOIDABLE", "the carrier keeps this label"),
        ),
        (response(200, results({"client_id": "x", "status": "ok"})), None),
        (response(200, results({"client_id": "ref-1"})), None),
    ],
)
def test_colibri_voids_the_label_that_is_named(answer, expected):
    (request,), outcome = drive(CARRIERS["colibri"].void(PURCHASE, CREDENTIALS), answer)
    assert json.loads(request.body) == {"items": [{"client_id": "ref-1", "barcode": "T1"}]}
    assert outcome == expected or (expected is None and isinstance(outcome, Unknown))
