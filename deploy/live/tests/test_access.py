"""Who may turn the knobs. Each guard is shown to be the one that refuses."""

import time

import pytest
from starlette.requests import Request

from deploy.live.access import Access, is_valid, sign
from shipping.live import ticket

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
        request(host="evil.test:8001"),  # a name that somebody lets resolve to loopback
        request(client="192.0.2.7"),
        request(x_forwarded_for="192.0.2.7"),  # a proxy on this machine speaks for another
    ],
    ids=["no header", "origin", "null origin", "rebinding", "remote", "proxied"],
)
def test_others_may_not(asked):
    assert not Access(demo=True).may_control(asked)


def test_outside_demo_mode_this_machine_may_not():
    assert not Access(demo=False, secret=SECRET).may_control(request())


def test_an_operator_may_from_anywhere_by_a_ticket_of_the_application():
    given = ticket(SECRET, time.time())
    access = Access(demo=False, secret=SECRET)
    assert access.may_control(request("192.0.2.7", host="live.shop.test", **bearer(given)))
    assert not access.may_control(request("192.0.2.7", x_live=None, **bearer(given)))
    assert not Access(demo=False, secret="").may_control(request(**bearer(given)))


@pytest.mark.parametrize(
    "given",
    [
        *("", ".", "9999999999.", "9999999999.00", "x.y", f"{10**30}.00", "\uff11.00", "-1.00"),
        "9" * 5000 + ".00",  # more than int() reads
    ],
)
def test_no_ticket(given):
    assert not is_valid(SECRET, given, now=0)


def test_a_ticket_ends_and_is_bound_to_its_secret():
    given = sign(SECRET, 100)
    assert is_valid(SECRET, given, now=99)
    assert not is_valid(SECRET, given, now=100)
    assert not is_valid("other", given, now=99)
    assert not is_valid(SECRET, given.replace("100", "999"), now=99)
    assert not is_valid("", sign("", 100), now=99)
