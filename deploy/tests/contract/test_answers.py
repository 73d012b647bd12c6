"""The same request gets the same answer, whoever serves it and however long it had to wait."""

import re

import pytest

from deploy.tests.contract.shop import QUICK, at_once, body_of, order

pytestmark = pytest.mark.deployment

# What the server says of the connection and of itself, not of the answer.
OF_THE_CONNECTION = {
    *("date", "server", "connection", "keep-alive", "transfer-encoding", "content-length"),
    # Each request's own.
    *("x-request-id",),
}
# What differs from one parcel to the next.
CHANGING = [
    (r"http://127\.0\.0\.1:\d+", "<base>"),
    (r'"(id|collo_nr|order_number)":\d+', r'"\1":"<number>"'),
    (r'"(tracking_number|colli_uuid|tracking_url)":"[^"]+"', r'"\1":"<some>"'),
    (r'"(date_\w+|timestamp)":"[^"]+"', r'"\1":"<time>"'),
    (r"/parcels/\d+", "/parcels/<number>"),
    (r"ids=\d+(,\d+)*", "ids=<numbers>"),
    (r"(normal_printer|label_printer)/\d+", r"\1/<number>"),
]

# Seconds that `Retry-After` may say (docs/api.md), and the cases in which it must.
SHORTEST_RETRY, LONGEST_RETRY = 1, 60
UNFINISHED = ("late", "late at once", "asynchronous")

REFUSED = order(company="SIM:REFUSE")
CASES = {
    "label": lambda shop: shop.post(order()),
    "label, quick": lambda shop: shop.post(order(QUICK)),
    "batch": lambda shop: shop.post(order(), order(QUICK), order()),
    "refused": lambda shop: shop.post(REFUSED),
    "refused, in the carrier's words": lambda shop: shop.post(
        REFUSED, path="parcels?errors=verbose-carrier"
    ),
    "one of a batch refused": lambda shop: shop.post(
        order(), REFUSED, path="parcels?errors=verbose-carrier"
    ),
    "one of a batch with a taken reference": lambda shop: shop.post(
        order(request_label=False, external_reference="taken"),
        order(request_label=False, external_reference="taken", name="Another"),
        path="parcels?errors=verbose",
    ),
    "late": lambda shop: shop.post(order(slower=3), headers=[("Prefer", "wait=1")]),
    "late at once": lambda shop: shop.post(order(), headers=[("Prefer", "wait=0")]),
    "asynchronous": lambda shop: shop.post(order(), headers=[("Prefer", "respond-async")]),
    "stored only": lambda shop: shop.post(order(request_label=False)),
    "invalid": lambda shop: shop.post(order(name="")),
    "malformed": lambda shop: shop.ask("POST", "parcels", b"{"),
    "unauthenticated": lambda shop: shop.ask("POST", "parcels", body_of(order()), login=False),
    "unknown path": lambda shop: shop.get("nothing"),
    "unknown parcel": lambda shop: shop.get("parcels/999999999?wait=5"),
    "statuses": lambda shop: shop.get("parcels/statuses"),
}
STATUS = {
    "late": 202,
    "late at once": 202,
    "refused, in the carrier's words": 400,
    "invalid": 400,
    "malformed": 400,
    "unauthenticated": 401,
    "unknown path": 404,
    "unknown parcel": 404,
}


def comparable(answer):
    """Return status, headers and body without what may differ."""
    headers = sorted(
        [name.lower(), checked_seconds(value) if name.lower() == "retry-after" else neutral(value)]
        for name, value in answer.headers
        if name.lower() not in OF_THE_CONNECTION
    )
    return [answer.status, headers, neutral(answer.body.decode())]


def checked_seconds(text):
    """Take a `Retry-After` for equal to any other one that docs/api.md allows."""
    assert text.isdecimal(), text
    assert SHORTEST_RETRY <= int(text) <= LONGEST_RETRY, text
    return "<seconds>"


def neutral(text):
    for pattern, replacement in CHANGING:
        text = re.sub(pattern, replacement, text)
    return text


@pytest.fixture(scope="module")
def answers(deployment):
    """Return all answers; the requests are made together, since most of them wait."""
    calls = [lambda ask=ask: ask(deployment.shop) for ask in CASES.values()]
    return dict(zip(CASES, at_once(*calls), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_the_answer_is_the_one_that_all_others_give(deployment, answers, first_answers, case):
    answer = answers[case]
    if isinstance(answer, Exception):
        raise answer
    assert answer.status == STATUS.get(case, 200), answer.body
    mine = comparable(answer)
    first, expected = first_answers.agree(case, deployment.name, mine)
    assert mine == expected, f"{first} answered otherwise"


@pytest.mark.parametrize("case", UNFINISHED)
def test_who_is_answered_early_hears_when_to_look_again(answers, case):
    assert checked_seconds(answers[case].header("Retry-After"))


@pytest.mark.parametrize("case", CASES)
def test_nothing_internal_is_shown(answers, case):
    names = [name.lower().replace("_", "-") for name, _ in answers[case].headers]
    assert not [name for name in names if name.startswith(("x-offload", "x-accel", "x-sendfile"))]
    assert names.count("content-type") == 1
    assert names.count("content-length") <= 1


def test_the_label_is_there(answers):
    parcel = answers["label"].json["parcel"]
    assert parcel["status"]["id"] == 1000
    assert parcel["label"]["label_printer"]
    assert parcel["tracking_number"]


def test_a_late_answer_says_where_and_when_to_look(shop, answers):
    answer = answers["late"]
    parcel = answer.json["parcel"]
    assert parcel["status"]["id"] == 1001
    assert answer.header("Location").endswith(f"/api/v2/parcels/{parcel['id']}")
    assert answer.header("Preference-Applied") == "wait=1"


def test_what_was_answered_late_is_announced_all_the_same(shop, answers):
    """And who waits for it on a GET is answered when it is there, not before."""
    parcel_id = answers["late"].json["parcel"]["id"]
    answer = shop.get(f"parcels/{parcel_id}?wait=60")
    assert (answer.status, answer.json["parcel"]["status"]["id"]) == (200, 1000)
