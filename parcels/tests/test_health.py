"""GET /carriers."""

import pytest

from parcels.services.carrier_guards import guards_of
from parcels.tests.requests import Shop

pytestmark = pytest.mark.django_db


def of(shop: Shop, code: str) -> dict[str, object]:
    response = shop.get("carriers")
    assert response.status_code == 200
    return next(each for each in response.json()["carriers"] if each["code"] == code)


def test_a_carrier_that_was_never_called(shop: Shop) -> None:
    recent = {"calls": 0, "p50": None, "p95": None, "error_share": 0.0}
    assert of(shop, "lantern") == {
        "code": "lantern",
        "name": "Lantern Freight",
        "breaker": "closed",
        "in_flight": 0,
        "limit": 400,
        "recent": recent,
    }


def test_what_its_calls_have_shown(shop: Shop) -> None:
    guards = guards_of("colibri")
    guards.enter([""])
    bought = [(duration, duration > 1) for duration in (0.5, 1.5, 2.5)]
    guards.leave(outcomes=[(True, 0.0, "")] * 10, bought=bought)
    seen = of(shop, "colibri")
    assert (seen["breaker"], seen["in_flight"]) == ("open", 1)
    assert seen["recent"] == {"calls": 3, "p50": 1.5, "p95": 2.5, "error_share": 0.3333}


def test_it_needs_keys(shop: Shop) -> None:
    shop.authorization = "Basic wrong"
    assert shop.get("carriers").status_code == 401
