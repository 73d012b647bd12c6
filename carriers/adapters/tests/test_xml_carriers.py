"""Lantern Freight and Meridian Mail: talks of several steps."""

import base64
from xml.etree import ElementTree as ET

import pytest

from carriers.adapters.lantern import LanternFreight
from carriers.breaker_rules import verdict
from carriers.messages import Purchase
from carriers.outcomes import (
    Absent,
    Announced,
    Found,
    NotSent,
    Refused,
    Throttled,
    Unknown,
    Voided,
)
from carriers.registry import CARRIERS
from carriers.tests.bodies import DOCUMENTS, PDF64, ZPL64, drive, response
from carriers.tests.transport_cases import CONSIGNMENT

CREDENTIALS = CONSIGNMENT.credentials
PURCHASE = Purchase("ref-1", "S1", "LF1")


def soap(inner, status=200):
    return response(
        status,
        '<?xml version="1.0" encoding="utf-8"?>'
        '<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/">'
        f"<soap:Body>{inner}</soap:Body></soap:Envelope>",
    )


def fault(code, text="no"):
    inner = f"<faultcode>{code}</faultcode><faultstring>{text}</faultstring>"
    return soap(f"<soap:Fault>{inner}</soap:Fault>", 500)


def login(token="t1", expires_in=600):
    return soap(
        f"<LoginResponse><token>{token}</token><expires_in>{expires_in}</expires_in></LoginResponse>"
    )


CREATED = soap(
    "<CreateShipmentResponse><shipment_number>S1</shipment_number>"
    "<tracking_number>LF1</tracking_number><price>9.95</price>"
    f"<label_pdf>\n{PDF64}\n</label_pdf><label_zpl>{ZPL64}</label_zpl></CreateShipmentResponse>"
)
LABEL = Announced("S1", "LF1", DOCUMENTS)
EXPIRED = fault("soap:Client.Authentication", "token expired")


@pytest.fixture
def lantern():
    return LanternFreight()  # its own, empty cache of tokens


def actions(requests):
    return [request.headers["SOAPAction"].strip('"') for request in requests]


def test_lantern_logs_in_once_and_keeps_the_token(lantern):
    requests, outcome = drive(lantern.announce(CONSIGNMENT), login(), CREATED)
    assert outcome == LABEL
    assert actions(requests) == ["Login", "CreateShipment"]
    assert [request.acts for request in requests] == [False, True]
    requests, outcome = drive(lantern.announce(CONSIGNMENT), CREATED)
    assert outcome == LABEL
    assert b"<token>t1</token>" in requests[0].body


def test_lantern_does_not_trust_a_token_that_runs_out_during_the_call(lantern):
    drive(lantern.announce(CONSIGNMENT), login(expires_in=30), CREATED)
    requests, _ = drive(lantern.announce(CONSIGNMENT), login(), CREATED)
    assert actions(requests)[0] == "Login"


def test_lantern_replaces_an_expired_token_once(lantern):
    drive(lantern.announce(CONSIGNMENT), login("old"), CREATED)
    requests, outcome = drive(lantern.announce(CONSIGNMENT), EXPIRED, login("new"), CREATED)
    assert outcome == LABEL
    assert actions(requests) == ["CreateShipment", "Login", "CreateShipment"]
    assert b"<token>new</token>" in requests[2].body
    assert requests[1].nothing_made, "that fault promises that nothing was made"
    drive(lantern.announce(CONSIGNMENT), CREATED)  # the new one is kept
    requests, outcome = drive(lantern.announce(CONSIGNMENT), EXPIRED, login("x"), EXPIRED)
    assert outcome == Refused("Client.Authentication", "token expired", credentials=True)
    assert len(requests) == 3


def test_lantern_buys_nothing_again_because_of_a_label_s_warning(lantern):
    warning = "<warning><faultcode>soap:Client.Authentication</faultcode></warning>"
    warned = CREATED.body.replace(b"</Create", f"{warning}</Create".encode())
    requests, outcome = drive(lantern.announce(CONSIGNMENT), login(), response(200, warned))
    assert outcome == LABEL
    assert actions(requests) == ["Login", "CreateShipment"]


def test_lantern_says_that_nothing_was_made_after_another_thread_s_login(lantern):
    drive(lantern.announce(CONSIGNMENT), login("old"), CREATED)
    steps = lantern.announce(CONSIGNMENT)
    next(steps)
    lantern.tokens.put(CREDENTIALS, "new", 600)
    again = steps.send(EXPIRED)
    assert actions([again]) == ["CreateShipment"]
    assert again.nothing_made


LANTERN_LOGINS = [
    (fault("soap:Client", "wrong password"), Refused("Client", "wrong password"), ""),
    (fault("soap:Server"), NotSent("server_error", "HTTP 500 before any purchase"), ""),
    (response(429, Retry_After="9"), Throttled(9.0, True), "nothing was asked for yet"),
    (soap("<LoginResponse/>"), NotSent("unreadable", "the token is missing"), ""),
    (response(200, "<"), NotSent("unreadable", "the answer is no XML"), ""),
    (response(401), Refused("credentials", "HTTP 401", credentials=True), ""),
]


@pytest.mark.parametrize(("answer", "expected", "remark"), LANTERN_LOGINS)
def test_lantern_buys_nothing_without_a_login(lantern, answer, expected, remark):
    requests, outcome = drive(lantern.announce(CONSIGNMENT), answer)
    assert outcome == expected
    assert len(requests) == 1


LANTERN_CREATES = [
    (fault("soap:Client", "bad address"), Refused("Client", "bad address"), "documented"),
    (fault("soap:Server"), "server_error", "no promise of anything"),
    (fault("soap:Clientele"), "server_error", "no such class of faults"),
    (response(200, CREATED.body[:300]), "unreadable", "cut"),
    (soap("<Other/>"), "unreadable", "not an answer to this"),
    (response(200, b"<!DOCTYPE a>" + CREATED.body.partition(b"?>")[2]), "unreadable", "a DTD"),
    (response(503), "server_error", ""),
]


@pytest.mark.parametrize(("answer", "expected", "remark"), LANTERN_CREATES)
def test_lantern_settles_a_create(lantern, answer, expected, remark):
    _, outcome = drive(lantern.announce(CONSIGNMENT), login(), answer)
    assert outcome == expected or (isinstance(outcome, Unknown) and outcome.reason == expected), (
        remark
    )


def test_lantern_promises_nothing_when_it_throttles(lantern):
    _, outcome = drive(lantern.announce(CONSIGNMENT), login(), response(429))
    assert outcome == Throttled(None, nothing_made=False)


def test_lantern_escapes_what_it_is_given(lantern):
    evil = type(CONSIGNMENT.receiver)(name="</receiver><token>x</token>&", country="NL")
    consignment = type(CONSIGNMENT)("r<1>", "30", evil, evil, 1, CREDENTIALS)
    requests, _ = drive(lantern.announce(consignment), login(), CREATED)
    create = ET.fromstring(requests[1].body).find(".//CreateShipment")
    assert create is not None
    assert create.findtext("receiver/name") == evil.name
    assert create.findtext("customer_reference") == "r<1>"
    assert [element.text for element in create.iter("token")] == ["t1"]


def test_lantern_voids_by_tracking_number(lantern):
    requests, outcome = drive(
        lantern.void(PURCHASE, CREDENTIALS), login(), soap("<CancelShipmentResponse/>")
    )
    assert outcome == Voided()
    assert [request.acts for request in requests] == [False, True]
    assert b"<tracking_number>LF1</tracking_number>" in requests[1].body
    _, outcome = drive(lantern.void(PURCHASE, CREDENTIALS), fault("soap:Client", "too late"))
    assert outcome == Refused("Client", "too late")


def test_lantern_is_alive_when_it_refuses_a_login(lantern):
    assert lantern.is_sign_of_life(fault("soap:Client"))
    assert not lantern.is_sign_of_life(fault("soap:Server"))


MERIDIAN = CARRIERS["meridian"]
ORDERED = response(201, Location="/orders/ref-1")


def label(reference="ref-1", pdf=PDF64, others="", price="5.40"):
    return response(
        200,
        f'<label reference="{reference}" tracking="MM1" price="{price}"{others}>'
        f"<pdf>{pdf}</pdf><zpl>{ZPL64}</zpl></label>",
    )


FETCHED = Announced("ref-1", "MM1", DOCUMENTS)


def test_meridian_orders_and_fetches():
    requests, outcome = drive(MERIDIAN.announce(CONSIGNMENT), ORDERED, label())
    assert outcome == FETCHED
    assert [(r.method, r.path, r.acts) for r in requests] == [
        ("POST", "/orders", True),
        ("GET", "/orders/ref-1/label", False),
    ]
    order = ET.fromstring(requests[0].body)
    assert order.attrib == {"reference": "ref-1", "product": "8", "grams": "500"}
    assert order.findtext("receiver/name") == "A. Receiver"
    basic = requests[0].headers["Authorization"].removeprefix("Basic ")
    assert base64.b64decode(basic) == b"u:p"


@pytest.mark.parametrize(
    "place", ["/api/v2/orders/ref-1", "https://meridian.example/api/v2/orders/ref-1"]
)
def test_meridian_s_address_may_have_a_path(place):
    """A Location has all of it (RFC 9110, 10.2.2); what adapters name is below the address."""
    _, outcome = drive(MERIDIAN.announce(CONSIGNMENT), response(201, Location=place), label())
    assert outcome == FETCHED


def test_a_price_that_makes_no_sense_leaves_the_label_bought(lantern):
    """The invoice says what was paid; nothing else reads a price."""
    created = response(200, CREATED.body.replace(b"9.95", b""))
    assert drive(lantern.announce(CONSIGNMENT), login(), created)[1] == LABEL
    odd = label(price="5,40 EUR")
    assert drive(MERIDIAN.announce(CONSIGNMENT), ORDERED, odd)[1] == FETCHED
    assert drive(MERIDIAN.lookup("ref-1", CREDENTIALS), odd)[1] == Found((FETCHED,))


MERIDIAN_ORDERS = [
    (response(400, '<error code="ZIP">bad</error>'), Refused("ZIP", "bad"), "documented"),
    (response(400, "<error>bad</error>"), "unreadable", "without a code"),
    (response(401), Refused("credentials", "HTTP 401", credentials=True), ""),
    (response(429), Throttled(None, nothing_made=True), "promised"),
    (response(500, '<error code="X"/>'), "server_error", "no promise"),
    (response(201), "unreadable", "an order that isn't anywhere"),
    (response(201, Location="/orders/ref-2"), "unreadable", "another's order"),
    (response(201, Location="/api/orders/a-ref-1"), "unreadable", "another's that ends alike"),
]


@pytest.mark.parametrize(("answer", "expected", "remark"), MERIDIAN_ORDERS)
def test_meridian_settles_an_order(answer, expected, remark):
    requests, outcome = drive(MERIDIAN.announce(CONSIGNMENT), answer)
    assert len(requests) == 1
    assert outcome == expected or (isinstance(outcome, Unknown) and outcome.reason == expected), (
        remark
    )


@pytest.mark.parametrize(
    "answer",
    [
        response(404),
        response(401),
        response(429),
        response(500),
        label("ref-2"),
        label(pdf="JVBERi0="),
        response(200, label().body[:60]),
    ],
)
def test_an_order_whose_label_cannot_be_fetched_is_unknown(answer):
    _, outcome = drive(MERIDIAN.announce(CONSIGNMENT), ORDERED, answer)
    assert isinstance(outcome, Unknown)


@pytest.mark.parametrize(
    ("steps", "answers"),
    [
        (lambda: MERIDIAN.announce(CONSIGNMENT), [ORDERED]),
        (lambda: MERIDIAN.lookup("ref-1", CREDENTIALS), []),
    ],
)
@pytest.mark.parametrize(("named", "asked"), [({"Retry_After": "30"}, 30.0), ({}, 0.0)])
def test_a_429_to_reading_stays_unknown_and_stops_calls(steps, answers, named, asked):
    _, outcome = drive(steps(), *answers, response(429, **named))
    assert isinstance(outcome, Unknown)
    assert outcome.reason == "throttled"
    assert verdict(outcome) == (None, asked)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (label(), Found((FETCHED,))),
        (
            label(others=' others="MM2 MM3"'),
            Found(
                (
                    FETCHED,
                    Announced("ref-1", "MM2", ()),
                    Announced("ref-1", "MM3", ()),
                )
            ),
        ),
        (
            label(others=f' others="MM2 {"3" * 65}"'),
            Unknown("unreadable", "another tracking number is unusable"),
        ),
        (response(404, b'<error code="NOT_FOUND">There is no label</error>'), Absent()),
        # Of something in between: it knows nothing of orders.
        (response(404), Unknown("unreadable", "HTTP 404 to a lookup")),
        (
            response(404, b"<html>404 Not Found</html>"),
            Unknown("unreadable", "HTTP 404 to a lookup"),
        ),
        (
            response(404, b'<error code="ROUTE">?</error>'),
            Unknown("unreadable", "HTTP 404 to a lookup"),
        ),
        (response(500), Unknown("server_error", "HTTP 500 to a lookup")),
        (label("ref-2"), Unknown("unreadable", "the answer is about another reference")),
    ],
)
def test_meridian_is_looked_up_by_its_label(answer, expected):
    _, outcome = drive(MERIDIAN.lookup("ref-1", CREDENTIALS), answer)
    assert outcome == expected


@pytest.mark.parametrize(("status", "kind"), [(204, Voided), (404, Refused), (409, Refused)])
def test_meridian_voids_the_label_that_is_named(status, kind):
    purchase = Purchase("ref-1", "ref-1", "MM&1")
    (request,), outcome = drive(MERIDIAN.void(purchase, CREDENTIALS), response(status))
    assert (request.method, request.path) == ("DELETE", "/orders/ref-1?tracking=MM%261")
    assert isinstance(outcome, kind)
