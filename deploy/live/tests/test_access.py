"""Who may turn the knobs. Each guard is shown to be the one that refuses."""

import time

import pytest
from starlette.requests import Request

from deploy.live.access import Access, user_of
from shipping.live import TICKET_LIFE, ticket

SECRET = "s" * 64
OURS = {"host": "127.0.0.1:8001", "x-live": "1"}


def request(client="127.0.0.1", **headers):
    given = {**OURS, **{name.replace("_", "-"): value for name, value in headers.items()}}
    raw = [(k.encode(), v.encode()) for k, v in given.items() if v is not None]
    return Request({"type": "http", "method": "POST", "headers": raw, "client": (client, 1)})


def bearer(value):
    return {"authorization": f"Bearer {value}"}


def test_this_machine_may_in_demo_mode():
    assert Access(demo=True).may_control(request())
    assert Access(demo=True).may_control(request(origin="http://127.0.0.1:8001"))


@pytest.mark.parametrize(
    "asked",
    [
        request(x_live=None),  # a form of another page can't set it
        request(origin="http://evil.test"),
        request(origin="null"),
        request(origin="http://["),  # no address at all
        request(host="["),
        request(host="evil.test:8001"),  # a name that somebody lets resolve to loopback
        request(client="192.0.2.7"),
        request(x_forwarded_for="192.0.2.7"),  # a proxy on this machine speaks for another
    ],
    ids=[
        "no header",
        "origin",
        "null origin",
        "no origin",
        "no host",
        "rebinding",
        "remote",
        "proxied",
    ],
)
def test_others_may_not(asked):
    assert not Access(demo=True).may_control(asked)


def test_outside_demo_mode_this_machine_may_not():
    assert not Access(demo=False, secret=SECRET).may_control(request())


def test_an_operator_may_from_anywhere_by_a_ticket_of_the_application():
    given = ticket(SECRET, 7, time.time())
    access = Access(demo=False, secret=SECRET)
    assert access.may_control(request("192.0.2.7", host="live.shop.test", **bearer(given)))
    assert not access.may_control(request("192.0.2.7", x_live=None, **bearer(given)))
    assert not Access(demo=False, secret="").may_control(request(**bearer(given)))


@pytest.mark.parametrize(
    "given",
    [
        "",
        ".",
        "..",
        "9999999999.",
        "9999999999.00",
        "9999999999.7.00",
        "x.y",
        "x.7.y",
        f"{'9' * 5000}.7.00",
        "\uff11.7.00",
        "-1.7.00",
        "1.7.\uff11",
        "1.2.3.4",
    ],
)
def test_no_ticket(given):
    assert not user_of(SECRET, given, now=0)


def test_a_ticket_ends_and_is_bound_to_its_secret_and_user():
    given = ticket(SECRET, 7, 100 - TICKET_LIFE)
    assert user_of(SECRET, given, now=99) == "7"
    assert not user_of(SECRET, given, now=100)
    assert not user_of("other", given, now=99)
    assert not user_of(SECRET, given.replace("100.", "999."), now=99)
    assert not user_of(SECRET, given.replace(".7.", ".8."), now=99)
    assert not user_of("", ticket("", 7, 0), now=99)
