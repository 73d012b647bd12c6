"""Any text in any field of a valid answer: an outcome that the database can store, never an error.

The database is PostgreSQL: no NUL, nothing that UTF-8 has no bytes for, nothing over a column's
length. `parcels/tests/test_books.py` holds the lengths against the columns.
"""

import copy
import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carriers.adapters.lantern import LanternFreight
from carriers.messages import Purchase
from carriers.outcomes import Announced, Refused
from carriers.registry import CARRIERS
from carriers.shapes import documents
from carriers.tests.bodies import PDF64, ZPL64, response
from carriers.tests.transport_cases import CONSIGNMENT

CREDENTIALS = CONSIGNMENT.credentials
PURCHASE = Purchase("ref-1", "S1", "T1")
# Surrogates and controls are in `characters()` already, but one in a thousand is no test of them.
ODD = ["\0", "\ud800", "\udfff", "\n", "\x85", "\u202e", "\uffff", " ", "é", "😀", "x" * 128]
TEXT = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=20),
    st.lists(st.sampled_from(ODD), min_size=1, max_size=4).map("".join),
    st.sampled_from(["", "x" * 64, "x" * 65, "x" * 129, "x" * 1_000_000, "http://[", "1e999999"]),
)
VALUE = TEXT | st.none() | st.booleans() | st.integers() | st.floats() | st.lists(TEXT, max_size=2)

LABEL = {
    "shipment_id": "S1",
    "reference": "ref-1",
    "tracking_number": "T1",
    "price": "4.25",
    "label": {"pdf": PDF64, "zpl": ZPL64},
}
ITEM = {
    "client_id": "ref-1",
    "status": "ok",
    "barcode": "T1",
    "cost": "3.10",
    "label_pdf": PDF64,
    "label_zpl": ZPL64,
}
FAILED = {"client_id": "ref-1", "status": "error", "error": {"code": "C", "text": "no"}}
REFUSAL = {"code": "C", "message": "no"}
JSON = {
    "json_label": [(201, LABEL), (200, {"shipments": [LABEL, LABEL]}), (422, REFUSAL)],
    "colibri": [(200, {"results": [ITEM]}), (200, {"results": [FAILED]}), (400, REFUSAL)],
}
JSON |= {"postnl": JSON["json_label"], "tortoise": JSON["json_label"]}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each leaf."""
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value)
    for key, entry in inner:
        if isinstance(entry, dict | list):
            yield from places(entry, (*path, key))
        else:
            yield (*path, key)


@st.composite
def json_answers(draw: st.DrawFn, code: str) -> Any:
    status, valid = draw(st.sampled_from(JSON[code]))
    body = copy.deepcopy(valid)
    for *way, last in draw(st.lists(st.sampled_from(list(places(body))), max_size=2)):
        place: Any = body
        for key in way:
            place = place[key]
        place[last] = draw(VALUE)
    return response(draw(st.sampled_from([status, 401, 409])), json.dumps(body))


def xml(template: str, values: dict[str, str]) -> bytes:
    said = {name: escape(value) for name, value in values.items()}
    said |= {f"{name}_attribute": quoteattr(value) for name, value in values.items()}
    return template.format_map(said).encode("utf-8", "surrogatepass")


SOAP = (
    '<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/">'
    "<soap:Body>{}</soap:Body></soap:Envelope>"
)
CREATED = (
    "<CreateShipmentResponse><shipment_number>{id}</shipment_number><price>{price}</price>"
    "<tracking_number>{tracking}</tracking_number><label_pdf>{pdf}</label_pdf>"
    "<label_zpl>{zpl}</label_zpl></CreateShipmentResponse>"
)
FAULT = "<soap:Fault><faultcode>{code}</faultcode><faultstring>{message}</faultstring></soap:Fault>"
LOGIN = "<LoginResponse><token>{token}</token><expires_in>{price}</expires_in></LoginResponse>"
FETCHED = (
    "<label reference={id_attribute} tracking={tracking_attribute} price={price_attribute} "
    "others={others_attribute}><pdf>{pdf}</pdf><zpl>{zpl}</zpl></label>"
)
XML = {
    "lantern": [(200, SOAP.format(CREATED)), (500, SOAP.format(FAULT)), (200, SOAP.format(LOGIN))],
    "meridian": [
        (201, ""),
        (200, FETCHED),
        (400, "<error code={code_attribute}>{message}</error>"),
    ],
}
VALID = {
    "id": "ref-1",
    "tracking": "T1",
    "price": "5.40",
    "pdf": PDF64,
    "zpl": ZPL64,
    "code": "soap:Client",
    "message": "no",
    "token": "t1",
    "others": "T2 T3",
    "location": "/orders/ref-1",
}


@st.composite
def xml_answers(draw: st.DrawFn, code: str) -> Any:
    status, template = draw(st.sampled_from(XML[code]))
    changes = draw(st.dictionaries(st.sampled_from(sorted(VALID)), TEXT, max_size=2))
    values = VALID | changes
    return response(status, xml(template, values), Location=values["location"])


def outcome_of(steps: Any, answers: Any, data: Any) -> Any:
    """Drive steps with generated answers for as long as they ask."""
    try:
        next(steps)
        while True:
            steps.send(data.draw(answers))
    except StopIteration as end:
        return end.value


def strings(value: Any) -> Iterator[str]:
    """Yield every string of an outcome."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for entry in value:
            yield from strings(entry)
    elif is_dataclass(value):
        for field in fields(value):
            yield from strings(getattr(value, field.name))
    else:
        assert value is None or isinstance(value, bool | bytes | float | Decimal)


def check(outcome: Any) -> None:
    for text in strings(outcome):
        assert "\0" not in text
        text.encode("utf-8")
        assert len(text) <= documents.LONGEST_REFUSAL
    labels = getattr(outcome, "announced", (outcome,))
    for label in labels:
        if isinstance(label, Announced):
            assert 0 < len(label.carrier_id) <= documents.LONGEST_CARRIER_ID
            assert 0 < len(label.tracking_number) <= documents.LONGEST_TRACKING_NUMBER
            assert (label.carrier_id + label.tracking_number).isprintable()


@pytest.mark.parametrize("code", CARRIERS)
@given(data=st.data())
def test_every_string_of_an_outcome_can_be_stored(code: str, data: Any) -> None:
    # Lantern's cache would keep a token of one example for the next.
    adapter = LanternFreight() if code == "lantern" else CARRIERS[code]
    answers = json_answers(code) if code in JSON else xml_answers(code)
    check(outcome_of(adapter.announce(CONSIGNMENT), answers, data))
    check(outcome_of(adapter.lookup("ref-1", CREDENTIALS), answers, data))
    check(outcome_of(adapter.void(PURCHASE, CREDENTIALS), answers, data))


UNUSABLE = ["", " ", "x" * 65, "a\0b", "\ud800", "a\nb", "a\x85b"]


@pytest.mark.parametrize("tracking", UNUSABLE)
def test_a_label_with_an_unusable_number_is_unknown(tracking: str) -> None:
    steps = CARRIERS["postnl"].announce(CONSIGNMENT)
    next(steps)
    with pytest.raises(StopIteration) as end:
        steps.send(response(201, json.dumps(LABEL | {"tracking_number": tracking})))
    assert end.value.value.reason == "unreadable"


def test_a_refusal_is_made_to_fit() -> None:
    assert documents.refused("C\0", "no\ud800 " + "x" * 1_000_000) == Refused(
        "C\ufffd", ("no? " + "x" * 1_000_000)[:500]
    )
    assert documents.refused("C", {"no": "text"}) == Refused("C", "")


@pytest.mark.parametrize("location", ["http://[", "//\u2100", "\0", ""])
def test_an_order_that_is_said_to_be_nowhere_is_unknown(location: str) -> None:
    steps = CARRIERS["meridian"].announce(CONSIGNMENT)
    next(steps)
    with pytest.raises(StopIteration) as end:
        steps.send(response(201, Location=location))
    assert end.value.value.reason == "unreadable"
