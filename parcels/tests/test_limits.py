"""Each limit and some more, to each route: refused in the error shape, nothing stored, cheap.

`EXCESS` has the requests of each row of docs/limits.md. Hypothesis says by how much they are over
it, and of which character they are made.
"""

import gc
import itertools
import json
import logging
import re
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from django.conf import settings as project
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from deploy import plan
from parcels import limits
from parcels.fields import ItemIn, Text
from parcels.models import Announcement, IdempotencyKey, Parcel, WebhookEndpoint
from parcels.openapi.document import document
from parcels.serializers import PARCEL_IN
from parcels.services import sort_out
from parcels.tests.factories import LabelledParcelFactory, ParcelFactory
from parcels.tests.requests import Shop, body
from shipping.management.commands.limits import PAGE, rows, written

pytestmark = pytest.mark.django_db
SECONDS = 0.05
# Bytes: what a request leaves in caches of ours and of Python's, not what it brought.
LEFT = 256 * 1024


class Call(NamedTuple):
    """A request over a limit, and the statuses that it may be refused with."""

    method: str
    path: str
    payload: Any = None
    headers: dict[str, str] = {}
    statuses: tuple[int, ...] = (400,)


def all_routes() -> Iterator[tuple[str, str]]:
    """Yield method and path of everything in the OpenAPI document, with ids that there are."""
    filled = {"parcel_id": "1", "webhook_id": "1", "delivery_id": "1", "method_id": "8"}
    filled |= {"contract_id": "1", "address_id": "1", "integration_id": "1"}
    filled |= {"kind": "label", "number": "3SABC"}
    for template, operations in document()["paths"].items():
        path = template.removeprefix("/api/v2/").format(**filled)
        yield from ((method.upper(), path) for method in operations)


READING_BODIES = [
    ("POST", "parcels"),
    ("POST", "parcels?errors=verbose"),
    ("PUT", "parcels"),
    ("POST", "labels"),
    ("POST", "webhooks"),
    ("PUT", "webhooks/1"),
]


def good_everywhere(literal: str) -> bytes:
    """Return a body that each of them takes, if it takes the literal in it."""
    sent = {"parcel": body(id=2), "label": {"parcels": [1]}, "webhook": {"url": "https://a.b/"}}
    return json.dumps(sent | {"unknown": "?"}).replace('"?"', literal).encode()


def to_readers(*literals: str) -> list[Call]:
    return [
        Call(method, path, good_everywhere(literal))
        for literal in literals
        for method, path in READING_BODIES
    ]


def to_all(suffix: str, *statuses: int) -> list[Call]:
    return [
        Call(method, path + suffix, None, {}, statuses or (400,)) for method, path in all_routes()
    ]


def parcels(*changes: dict[str, Any]) -> list[Call]:
    """Return calls with one parcel of each of these fields, in every form that there is."""
    bodies = [body(**change) for change in changes]
    return [
        call
        for one in bodies
        for call in (
            Call("POST", "parcels", {"parcel": one}),
            Call("POST", "parcels", {"parcels": [body(), one]}),
            Call("PUT", "parcels", {"parcel": {"id": 2} | one}),
        )
    ]


def texts(fields: Mapping[str, Any]) -> list[str]:
    return [name for name, field in fields.items() if isinstance(field, Text)]


def queries(parameters: dict[str, list[str]], value: str) -> list[Call]:
    return [
        Call("GET", f"{path}?{name}={value}") for path in parameters for name in parameters[path]
    ]


TEXTS = {
    "parcels": ["tracking_number", "external_reference", "order_number"],
    "shipping_methods": ["from_postal_code", "to_postal_code", "to_country"],
}
NUMBERS = {
    "parcels": ["parcel_status"],
    "parcels/1": ["wait"],
    "parcels/1/documents/label": ["dpi"],
    "labels/normal_printer/1": ["start_from"],
    "shipping_methods": ["sender_address", "service_point_id"],
    "shipping_methods/8": ["sender_address", "service_point_id"],
}
IDS = {"parcels": ["ids"], "labels/normal_printer": ["ids"], "labels/label_printer": ["ids"]}
WITH_IDS = [(method, path) for method, path in all_routes() if "1" in path.split("/")]
MANY = {"quantity": 20, "request_label": True, "shipment": {"id": 8}}
HUNDRED = {"parcel_items": [{"description": "shoes"}] * 100}

# By the row's name: `over` is a number from 1 on, `x` a character.
EXCESS: dict[str, Callable[[int, str], list[Call]]] = {
    "Body": lambda over, x: [
        Call(method, path, b" " * (project.DATA_UPLOAD_MAX_MEMORY_SIZE + over), {}, (413,))
        for method, path in all_routes()
    ],
    "Values in a body": lambda over, x: to_readers("[" + "0," * (limits.VALUES + over) + "0]"),
    "Depth of a body": lambda over, x: to_readers(
        "[" * (limits.DEPTH - 1 + over) + "]" * (limits.DEPTH - 1 + over),
        '{"a":' * (limits.DEPTH - 1 + over) + "1" + "}" * (limits.DEPTH - 1 + over),
    ),
    "Number in a body": lambda over, x: to_readers(
        "9" * (limits.NUMBER + over), "0." + "9" * (limits.NUMBER - 2 + over), f"1e{16 + over}"
    ),
    "Text in a body": lambda over, x: to_readers(
        json.dumps("\0" + x), json.dumps("\ud800" * over), json.dumps({"\udfff": x})
    ),
    "Parcels in a request": lambda over, x: [
        Call("POST", "parcels", {"parcels": [body()] * (limits.PARCELS + over)}),
        Call("POST", "parcels", {"parcels": [body(quantity=20)] * 5 + [body()] * min(over, 5)}),
    ],
    "Parcel": lambda over, x: parcels({"unknown": x * (limits.PARCEL + over)}),
    "`parcel_items` of a parcel": lambda over, x: parcels(
        {"parcel_items": [{}] * (limits.ITEMS + over)}
    ),
    "`parcel_items` in a request": lambda over, x: [
        Call("POST", path, {"parcels": [*[body(**HUNDRED)] * 10, body(parcel_items=[{}] * over)]})
        for path in ("parcels", "parcels?errors=verbose")
    ],
    "`properties` of an item": lambda over, x: parcels(
        {"parcel_items": [{"properties": {"a": x * (limits.PROPERTIES + over)}}]}
    ),
    "String of a parcel": lambda over, x: [
        *parcels(*({name: x * (limits.TEXT + over)} for name in texts(PARCEL_IN.fields))),
        *parcels(
            *(
                {"parcel_items": [{name: x * (limits.TEXT + over)}]}
                for name in texts(ItemIn().fields)
            )
        ),
    ],
    "`hs_code`": lambda over, x: parcels(
        {"parcel_items": [{"hs_code": x * (limits.HS_CODE + over)}]}
    ),
    "`mid_code`": lambda over, x: parcels(
        {"parcel_items": [{"mid_code": x * (limits.MID_CODE + over)}]}
    ),
    "Whole number of a parcel": lambda over, x: parcels(
        *(
            {name: limits.INTEGER + over}
            for name in ("contract", "sender_address", "to_service_point", "shipment")
        ),
        {"parcel_items": [{"quantity": limits.INTEGER + over}]},
    ),
    "`quantity` of a parcel": lambda over, x: parcels({"quantity": limits.COLLI + over}),
    "`insured_value`": lambda over, x: parcels(
        {"insured_value": limits.INSURED_VALUE + over},
        {"total_insured_value": limits.INSURED_VALUE + over},
    ),
    "Parcels in `POST /labels`": lambda over, x: [
        Call("POST", "labels", {"label": {"parcels": [1] * (limits.IDS + over)}})
    ],
    "Path": lambda over, x: to_all("/" + "a" * (limits.PATH + over), 404),
    "Id in a path": lambda over, x: [
        Call(method, path.replace("1", "9" * (limits.ID_DIGITS + over)), None, {}, (404,))
        for method, path in WITH_IDS
    ],
    "Query": lambda over, x: to_all("?a=" + "a" * (limits.QUERY - 2 + over)),
    "Parameters of a query": lambda over, x: to_all("?" + "&" * (limits.PARAMETERS - 1 + over)),
    "Text in a query": lambda over, x: [
        *queries(TEXTS, quote(x) * (limits.TEXT + min(over, 20))),
        *queries(TEXTS, f"{quote(x)}%00"),
    ],
    "Number in a query": lambda over, x: [
        *queries(NUMBERS, str(limits.INTEGER + over)),
        *queries(NUMBERS, "0" * (10 + over)),
    ],
    "`ids` in a query": lambda over, x: [
        *queries(IDS, ",".join(["1"] * (limits.IDS + over))),
        *queries(IDS, "9" * (limits.ID_DIGITS + over)),
    ],
    "`Idempotency-Key`": lambda over, x: [
        Call("POST", "parcels", {"parcel": body()}, {"Idempotency-Key": "a" * (255 + over)}),
        Call("POST", "parcels", {"parcel": body()}, {"Idempotency-Key": ""}),
    ],
    "`Accept`": lambda over, x: [
        Call("GET", path, None, {"Accept": accept}, (200, 404, 406))
        for path in ("parcels/1/documents/label", "parcels/7/documents/label", "user")
        for accept in ("a" * (limits.ACCEPT + over), "a/b," * (limits.ACCEPT_TYPES + over))
    ],
    "Webhook's `url`": lambda over, x: webhooks(url="https://a.b/" + "a" * (2036 + over)),
    "Webhook's `secret`": lambda over, x: [
        *webhooks(secret="a" * (limits.TEXT + over)),
        *webhooks(secret="a" * 15),
    ],
}  # fmt: skip
# Rows that are shown by other tests.
ELSEWHERE = {
    "Webhooks of an account": "parcels/tests/test_webhooks.py",
    "Wrong keys of an address": "shipping/tests/test_authentication.py",
    "Reading requests of an account": "parcels/throttling/tests/test_throttle.py",
    "Other requests of an account": "parcels/throttling/tests/test_throttle.py",
    "Held clients of an account": "offload/tests/test_hub.py",
    "Held clients": "offload/tests/test_hub.py",
    "Requests of an address under way": "offload/tests/test_intake.py",  # and below, and deploy's
    "Documents and lists of parcels that an address fetches": "deploy/tests/test_front.py",
    "Uploads over 128 KiB in flight": "offload/tests/test_intake.py",
    "Time for headers, for a refused body's rest, or without reading of the answer": (
        "offload/tests/test_idle.py"
    ),
    "Time for a body to arrive": "offload/tests/test_intake.py",
}


def webhooks(**fields: str) -> list[Call]:
    sent = {"webhook": {"url": "https://a.b/"} | fields}
    return [Call("POST", "webhooks", sent), Call("PUT", "webhooks/1", sent)]


@pytest.fixture
def place(shop: Shop) -> Iterator[Shop]:
    """Return a shop with parcel 1, which has a label, parcel 2, which has none, and a webhook."""
    LabelledParcelFactory.create(id=1, account=shop.account)
    ParcelFactory.create(id=2, account=shop.account, status=999)
    WebhookEndpoint.objects.create(id=1, account=shop.account, url="https://a.b/")
    logging.disable(logging.CRITICAL)  # pytest keeps each record, and with it its request
    yield shop
    logging.disable(logging.NOTSET)


def stored() -> list[object]:
    """Return everything that the requests could have changed."""
    counts = [Announcement.objects.count(), IdempotencyKey.objects.count()]
    return [*counts, *Parcel.objects.values_list(), *WebhookEndpoint.objects.values_list()]


def send(shop: Shop, call: Call) -> tuple[int, dict[str, Any], float]:
    """Return the status, the error and the seconds of processor time."""
    payload = call.payload
    if payload is not None and not isinstance(payload, bytes):
        payload = json.dumps(payload).encode()
    began = time.thread_time()
    answer = shop.call(call.method, call.path, call.headers, payload)
    seconds = time.thread_time() - began
    refused = answer.status_code >= 400
    return answer.status_code, answer.json()["error"] if refused else {}, seconds


def test_the_page_is_the_code_s() -> None:
    """Red? `make results`."""
    text = PAGE.read_text()
    assert written(text) == text
    assert written(text.replace("| 2 MiB |", "| 3 MiB |")) == text


def test_each_row_has_its_requests() -> None:
    assert sorted([*EXCESS, *ELSEWHERE]) == sorted(row.what for row in rows())
    assert all((project.BASE_DIR / file).exists() for file in ELSEWHERE.values())
    assert len(list(all_routes())) > 25


@pytest.mark.parametrize(("method", "path"), READING_BODIES)
def test_without_the_excess_they_are_taken(place: Shop, method: str, path: str) -> None:
    """The control: what is refused below is refused for its one literal."""
    status, error, _ = send(place, Call(method, path, good_everywhere('["x", 1, {}]')))
    assert (status, error) == (200, {})


@pytest.mark.parametrize("what", EXCESS)
def test_over_a_limit_nothing_happens_and_soon(place: Shop, what: str) -> None:
    before = stored()
    send(place, Call("GET", "user"))  # what is made once is not the first request's

    @given(over=st.integers(1, 1000), x=st.characters(categories=["L", "N", "S"]))
    @settings(
        max_examples=5,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],  # a smaller excess would say nothing more, and cost minutes
        suppress_health_check=list(HealthCheck),
    )
    def refused(over: int, x: str) -> None:
        for call in EXCESS[what](over, x):
            status, error, seconds = send(place, call)
            said = f"{call.method} {call.path[:80]}: {status} {error}"
            assert status in call.statuses, said
            assert status < 400 or error["code"] == status, said
            assert len(str(error)) < 2000, said
            # Again, should the machine have been busy with something else.
            assert min(seconds, *again(place, call, seconds)) < SECONDS, said
        assert stored() == before

    refused()


def test_a_batch_with_many_colli_is_sorted_out_by_one_of_each(
    place: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They validate alike, and a hundred orders of twenty would be two thousand parcels."""
    made: list[int] = []
    new_colli = sort_out.new_colli

    def counting(order: Any, owned: Any) -> Any:
        made.append(order.colli)
        return new_colli(order, owned)

    monkeypatch.setattr(sort_out, "new_colli", counting)
    bodies = [body(**MANY)] * 40
    assert send(place, Call("POST", "parcels?errors=verbose", {"parcels": bodies}))[0] == 400
    assert made == [1] * 40


def again(shop: Shop, call: Call, seconds: float) -> list[float]:
    return [send(shop, call)[2] for _ in range(3)] if seconds >= SECONDS else [seconds]


@pytest.mark.parametrize("what", EXCESS)
def test_over_a_limit_no_memory_is_kept(place: Shop, what: str) -> None:
    calls = EXCESS[what](1, "x")[:12]
    for call in calls:
        send(place, call)
    gc.collect()
    tracemalloc.start()
    try:
        seen = [tracemalloc.get_traced_memory()[0]]
        for _ in range(3):
            for call in calls:
                send(place, call)
            gc.collect()
            seen.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # What is kept grows each time; a cache that fills for the first time does so once.
    assert min(after - before for before, after in itertools.pairwise(seen)) < LEFT


def test_the_front_has_the_same_limits() -> None:
    """Its configuration bounds what reaches no code of ours."""
    text = (project.BASE_DIR / "deploy" / "base" / "nginx" / "http.conf").read_text()
    mega = project.DATA_UPLOAD_MAX_MEMORY_SIZE // 1024**2
    assert re.search(rf"client_max_body_size {mega}m;", text)
    assert str(limits.CONNECTIONS) == plan.CONNECTIONS
    assert limits.LARGE_UPLOADS == plan.LARGE_BODIES
    assert limits.DOCUMENTS == plan.DOCUMENTS
