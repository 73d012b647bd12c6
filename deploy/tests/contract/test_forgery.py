"""Nothing in a client's request can name where it is held, or whose answer it gets."""

import time
import uuid
from collections.abc import Callable

import psycopg
import pytest

from deploy.tests.contract.shop import QUICK, Later, at_once, body_of, order
from deploy.tests.contract.wire import Connection
from deploy.tests.waiting import until
from offload.tickets import make_ticket

pytestmark = pytest.mark.deployment

HEADERS = [
    *("X-Accel-Redirect", "X-Accel-Buffering", "X-Accel-Expires", "X-Accel-Limit-Rate"),
    *("X-Accel-Charset", "X-Offload-Ticket", "X-Offload-Request", "X-Offload-Hold", "X-Sendfile"),
    "Script-Name",  # gunicorn's, with an underscore: what all paths begin with
]
FORMS: list[Callable[[str], str]] = [
    str,
    str.lower,
    str.upper,
    lambda name: name.replace("-", "_"),
]
NAMES = sorted({form(name) for name in HEADERS for form in FORMS})
# 403 is Django's word to a POST that lacks a cross-site token.
REFUSALS = (400, 403, 404, 405)
PLACES = ["hold", "poll", "late"]


def ticket(deployment, hold_id="", account="1"):
    """Return a ticket that is signed as ours are: whoever steals one has such a one."""
    secret = deployment.stack.env["OFFLOAD_SECRET"]
    deadline = time.time() + 60
    return make_ticket(secret, hold_id or uuid.uuid4().hex, account=account, deadline=deadline)


def internal_paths(text):
    """Return the internal addresses of a ticket, plain and in disguise."""
    plain = [f"/_offload/{place}/{text}" for place in PLACES]
    disguised = [
        f"//_offload/hold/{text}",
        f"/./_offload/hold/{text}",
        f"/api/../_offload/hold/{text}",
        f"/%5Foffload/hold/{text}",
        f"/_offload/hold/{text}?a=b",
        f"/_offload%2Fhold%2F{text}",
        f"/hold/{text}",
        "/_offload/answers",
        "/_offload/hold/",
        "/_offload/",
    ]
    return plain + disguised


@pytest.mark.parametrize("value", ["ticket", "path", "nonsense"])
def test_internal_headers_are_not_honoured(deployment, shop, value):
    text = ticket(deployment)
    values = {"ticket": text, "path": f"/_offload/hold/{text}", "nonsense": "yes"}
    calls = [
        lambda name=name: shop.get("parcels/statuses", headers=[(name, values[value])])
        for name in NAMES
    ]
    expected = shop.get("parcels/statuses")
    for name, answer in zip(NAMES, at_once(*calls), strict=True):
        assert not isinstance(answer, Exception), (name, answer)
        assert (answer.status, answer.body) == (200, expected.body), name


def test_a_waiting_request_is_held_where_the_app_says(deployment, shop):
    """All forged headers at once, on a request that is really held."""
    text = ticket(deployment)
    headers = [(name, f"/_offload/hold/{text}") for name in NAMES if "Ticket" not in name]
    answer = shop.post(order(name="Mine"), headers=[*headers, ("X-Offload-Ticket", text)])
    assert answer.json["parcel"]["name"] == "Mine"
    assert answer.json["parcel"]["status"]["id"] == 1000


def test_a_stolen_ticket_is_worth_nothing(deployment, shop):
    """A valid ticket for a hold of another account that is waited for at this moment."""
    before = deployment.other_shop.total()
    victim = Later(lambda: deployment.other_shop.post(order(slower=1, name="Secret")))
    try:
        until(lambda: deployment.other_shop.total() > before, "the victim's row")
        stolen = ticket(deployment, newest_hold(deployment))
        tried = [shop.get(path) for path in internal_paths(stolen)]
        tried += [shop.get("parcels", headers=[(name, stolen)]) for name in NAMES]
    finally:
        answer = victim.result()
    assert not [one for one in tried if b"Secret" in one.body]
    assert answer.json["parcel"]["status"]["id"] == 1000


def newest_hold(deployment):
    """Return the id of the newest hold; any id where none was ever needed."""
    with psycopg.connect(deployment.stack.env["DATABASE_URL"]) as database:
        row = database.execute("SELECT id FROM parcels_hold ORDER BY deadline_at DESC").fetchone()
    return row[0] if row else uuid.uuid4().hex


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_internal_addresses_are_closed(deployment, shop, method):
    body = body_of(order()) if method == "POST" else None
    paths = internal_paths(ticket(deployment))
    calls = [lambda path=path: shop.ask(method, path, body) for path in paths]
    for path, answer in zip(paths, at_once(*calls), strict=True):
        assert not isinstance(answer, Exception), (path, answer)
        assert answer.status in REFUSALS, (path, answer.status, answer.body)


@pytest.mark.parametrize("login", [True, False], ids=["other keys", "no keys"])
def test_a_held_answer_goes_to_nobody_else(deployment, shop, login):
    """Two requests on one kept connection: the second must not hear the first one's answer."""
    with deployment.unless_it_cannot("keep-alive"), Connection(shop.port) as connection:
        first = connection.ask(shop.bytes("POST", "parcels", body_of(order(QUICK, name="Mine"))))
        assert first.json["parcel"]["name"] == "Mine"
        path = f"parcels/{first.json['parcel']['id']}"
        asker = deployment.other_shop
        second = connection.ask(asker.bytes("GET", path, login=login))
        assert second.status == (404 if login else 401)
        assert b"Mine" not in second.body


def test_unauthenticated_requests_are_neither_held_nor_stored(deployment, shop):
    before = shop.total()
    answers = at_once(*[lambda: shop.ask("POST", "parcels", body_of(order()), login=False)] * 5)
    assert {answer.status for answer in answers} == {401}
    assert shop.total() == before
    assert deployment.held_now() in (0, None)


def test_a_used_ticket_opens_nothing(deployment, shop):
    """What was honoured once is in no client's hands, and from there it opens nothing."""
    if not deployment.holds_clients:
        pytest.skip("no ticket is ever used here")
    used = "SELECT id FROM parcels_hold WHERE released_at IS NOT NULL LIMIT 2"
    assert shop.post(order()).status == 200
    with psycopg.connect(deployment.stack.env["DATABASE_URL"], autocommit=True) as database:
        # The row is settled after its client has its answer.
        rows = until(lambda: database.execute(used).fetchall(), "a used hold")
    for (hold_id,) in rows:
        for path in internal_paths(ticket(deployment, hold_id)):
            answer = shop.get(path)
            assert answer.status in REFUSALS, path
            assert b"parcel" not in answer.body or answer.status == 404
