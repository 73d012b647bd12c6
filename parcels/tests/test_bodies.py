"""Bodies that can be read but not stored, echoed or afforded: refused before anything is stored."""

import json
from typing import Any

import pytest
from django.test.client import FakePayload

from parcels.models import Account, Parcel
from parcels.representation import Question
from parcels.serializers import PARCEL_IN
from parcels.services.holds import Asked
from parcels.tests.requests import Shop, body
from parcels.views.create import read_orders

pytestmark = pytest.mark.django_db
# One parcel that is stored, and one that is echoed with its errors.
VERBOSE = json.dumps({"parcels": [body(), body(name="", echoed="X")]})


@pytest.mark.parametrize(
    ("literal", "named"),
    [
        (r'"\ud800"', "parcels.echoed"),
        (r'"\uDFFF\ud800"', "parcels.echoed"),
        (r'"\u0000"', "parcels.echoed"),
        (r'{"\ud800": 1}', "parcels.echoed"),
        (r'[["\ud800"]]', "parcels.echoed"),
        ("1e999", "number"),
        ("-1e999", "number"),
        ("1e17", "number"),  # PostgreSQL's JSON writes it out: 1e308 as 309 digits
        ("-1e-17", "number"),
        ("NaN", "JSON"),
        ("Infinity", "JSON"),
        ("9" * 65, "number"),
        ("9" * 5000, "number"),
        ("0." + "9" * 5000, "number"),
        ("[" * 48 + "]" * 48, "50"),
        ("[" * 990 + "]" * 990, "50"),
        ("[" * 100_000, "50"),
    ],
)
def test_what_no_answer_can_repeat_is_refused(shop: Shop, literal: str, named: str) -> None:
    sent = VERBOSE.replace('"X"', literal).encode()
    answer = shop.post("parcels?errors=verbose", sent)
    assert answer.status_code == 400, answer.content[:300]
    assert named in answer.json()["error"]["message"]
    assert not Parcel.objects.exists()


@pytest.mark.parametrize(
    "literal",
    [
        r'"\ud83d\udce6"',
        r'"\\ud800"',
        r'"\\u0000"',
        "1e16",
        "-1e-16",
        "9" * 64,
        "[" * 47 + "]" * 47,
    ],
)
def test_what_only_looks_like_it_is_repeated(shop: Shop, literal: str) -> None:
    answer = shop.post("parcels?errors=verbose", VERBOSE.replace('"X"', literal).encode())
    assert answer.status_code == 200
    assert answer.json()["failed_parcels"][0]["parcel"]["echoed"] == json.loads(literal)


@pytest.mark.parametrize("value", [float("inf"), "\ud800"])
def test_an_answer_that_cannot_be_rendered_stores_nothing(account: Account, value: Any) -> None:
    """Behind the parser: the words that the answer repeats are rendered before the commit."""
    how = Asked(account, Question([], "", "", many=True, errors="verbose"))
    with pytest.raises(ValueError, match=r"JSON|surrogates"):
        read_orders(how, [body(name="", echoed=value)])


@pytest.mark.parametrize("charset", ["utf-8", "punycode", "utf-16", "iso-8859-1", "no-such"])
def test_bodies_are_utf_8_whatever_they_declare(shop: Shop, charset: str) -> None:
    answer = shop.client.generic(
        "POST",
        "/api/v2/parcels",
        data=json.dumps({"parcel": body(name="J\xf8rgen")}, ensure_ascii=False).encode(),
        content_type=f"application/json; charset={charset}",
        headers={"Authorization": shop.authorization},
    )
    assert answer.json()["parcel"]["name"] == "J\xf8rgen"


@pytest.mark.parametrize(
    "items",
    [
        [None],
        [{"description": "shoes"}, None],
        [[]],
        *(
            [{name: None}]
            for name in (
                *("description", "hs_code", "origin_country", "product_id", "item_id"),
                *("properties", "quantity", "sku", "value", "weight", "mid_code"),
            )
        ),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_items_that_are_null_or_have_nulls_are_refused(
    shop: Shop, items: list[Any], method: str
) -> None:
    parcel = shop.post("parcels", {"parcel": body()}).json()["parcel"]
    changed = {"id": parcel["id"]} | body(parcel_items=items)
    answer = shop.call(method, "parcels", {}, {"parcel": changed})
    assert answer.status_code == 400
    assert "parcel_items" in answer.json()["error"]["message"]
    assert Parcel.objects.get().parcel_items == []


def test_no_items_at_all_may_still_be_said_by_null(shop: Shop) -> None:
    answer = shop.post("parcels", {"parcel": body(parcel_items=None)})
    assert answer.json()["parcel"]["parcel_items"] == []


def test_a_changed_item_keeps_every_text() -> None:
    """A partial update skips defaults: what reads items relies on them."""
    from parcels.serializers import PARCEL_CHANGE

    for serializer, parcel in ((PARCEL_IN, body()), (PARCEL_CHANGE, {})):
        fields = serializer.run_validation(parcel | {"parcel_items": [{"value": "1"}]})
        assert fields["parcel_items"] == [
            {
                "description": "",
                "hs_code": "",
                "origin_country": "",
                "product_id": "",
                "item_id": "",
            }
            | {"sku": "", "mid_code": "", "quantity": 1, "value": "1.00"}
        ]


TWENTY = {"parcel_items": [{"description": "shoes"}] * 20}


@pytest.mark.parametrize(
    ("payload", "named"),
    [
        ({"parcel": body(parcel_items=[{}] * 101)}, "100"),
        ({"parcels": [body(parcel_items=[{}] * 101)]}, "100"),
        ({"parcels": [body(**TWENTY)] * 50 + [body(parcel_items=[{}])]}, "1000 items"),
        ({"parcel": body(parcel_items=[{"properties": {"a": "x" * 4096}}])}, "4096"),
        ({"parcel": body(unknown="x" * 65_536)}, "65536"),
        ({"parcels": [body(), body(unknown="x" * 65_536)]}, "65536"),
        ({"parcel": body(unknown=[0] * 50_001)}, "50000"),
        ({"parcel": [{}] * 600_000}, "50000"),
    ],
)
def test_each_limit_of_a_body_is_told(shop: Shop, payload: Any, named: str) -> None:
    sent = json.dumps(payload, separators=(",", ":")).encode()
    answer = shop.post("parcels", sent)
    assert answer.status_code == 400
    assert named in answer.json()["error"]["message"]
    assert not Parcel.objects.exists()


def test_at_the_limits_a_batch_is_stored(shop: Shop) -> None:
    items = {"parcel_items": [{"description": "x" * 200}] * 100}
    payload = {"parcels": [body(**items), body(**items)]}
    assert 40_000 < len(json.dumps(payload)) < 131_072
    answer = shop.post("parcels", payload)
    assert [len(parcel["parcel_items"]) for parcel in answer.json()["parcels"]] == [100, 100]


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "parcels"), ("PUT", "parcels"), ("POST", "parcels/1/cancel"), ("GET", "user")],
)
def test_a_body_over_the_limit_is_a_413_unread_whoever_asks(
    shop: Shop, settings: Any, method: str, path: str
) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    answer = shop.client.generic(method, f"/api/v2/{path}", data=b"x" * 1001)
    assert answer.status_code == 413
    assert answer.json()["error"] == {
        "code": 413,
        "request": f"api/v2/{path}",
        "message": "The body is over 1000 bytes.",
    }


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k"}])
def test_a_body_that_is_cut_off_is_no_fault_of_ours(
    shop: Shop, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client is gone, but a 500 is counted and logged with a traceback."""

    def cut(*_: object) -> bytes:
        raise ConnectionResetError

    monkeypatch.setattr(FakePayload, "read", cut)
    answer = shop.post("parcels", {"parcel": body()}, **headers)
    assert answer.status_code == 400
    assert not Parcel.objects.exists()
