"""Failed keys are limited by address, and working keys are not."""

from typing import Any

import pytest
from django.db import connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from parcels import limits
from parcels.models import ApiKey
from parcels.tests.factories import AccountFactory
from parcels.tests.requests import Shop, basic
from shipping import authentication, failed_keys

pytestmark = pytest.mark.django_db
WRONG = basic("nobody", "guess")


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setattr(authentication, "FAILURES", failed_keys.Failures())
    monkeypatch.setattr(authentication, "_worked", {})
    return Shop(AccountFactory.create())


def fail(shop: Shop, times: int, **environment: str) -> list[int]:
    headers = {"Authorization": WRONG}
    return [
        shop.client.get("/api/v2/user", headers=headers, **environment).status_code  # type: ignore[arg-type]
        for _ in range(times)
    ]


def test_an_address_that_fails_too_often_costs_no_query(
    shop: Shop, django_assert_num_queries: Any
) -> None:
    assert fail(shop, limits.FAILED_KEYS) == [401] * limits.FAILED_KEYS
    with django_assert_num_queries(0):
        answer = shop.get("user", Authorization=WRONG)
    assert answer.status_code == answer.json()["error"]["code"] == 429
    assert 0 < int(answer["Retry-After"]) <= 60
    assert fail(shop, 1, REMOTE_ADDR="192.0.2.7") == [401]


def test_the_limit_ends_with_its_minute(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(shop, limits.FAILED_KEYS)
    assert fail(shop, 1) == [429]
    now = failed_keys.monotonic()
    monkeypatch.setattr(failed_keys, "monotonic", lambda: now + 61)
    assert fail(shop, 1) == [401]


def test_a_key_that_worked_passes_whatever_fails_beside_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a proxy that nobody has named, all clients have its address."""
    assert shop.get("user").status_code == 200
    fail(shop, limits.FAILED_KEYS)
    assert shop.get("user").status_code == 200
    ApiKey.objects.all().delete()
    now = authentication.monotonic()
    monkeypatch.setattr(authentication, "monotonic", lambda: now + authentication.BELIEVED)
    assert [shop.get("user").status_code for _ in range(2)] == [401, 429]


def test_a_key_is_looked_up_once_in_some_seconds(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert [shop.get("user").status_code for _ in range(3)] == [200] * 3
    assert len([each for each in queries if ApiKey._meta.db_table in each["sql"]]) == 1
    assert fail(shop, 1) == [401]  # another's keys, and its own with another secret
    wrong = basic(ApiKey.objects.get().public_key, "guess")
    assert shop.get("user", Authorization=wrong).status_code == 401
    ApiKey.objects.update(revoked_at=timezone.now())
    assert shop.get("user").status_code == 200
    now = authentication.monotonic()
    monkeypatch.setattr(authentication, "monotonic", lambda: now + authentication.BELIEVED)
    assert shop.get("user").status_code == 401


def test_the_address_is_the_client_s(shop: Shop, settings: Any) -> None:
    settings.TRUSTED_PROXIES = ["127.0.0.1/32"]
    fail(shop, limits.FAILED_KEYS, HTTP_X_FORWARDED_FOR="192.0.2.1")
    assert fail(shop, 1, HTTP_X_FORWARDED_FOR="192.0.2.1") == [429]
    assert fail(shop, 1, HTTP_X_FORWARDED_FOR="192.0.2.2") == [401]


def test_nobody_s_address_is_everybody_s_and_not_limited(shop: Shop) -> None:
    fail(shop, limits.FAILED_KEYS, REMOTE_ADDR="")
    assert fail(shop, 1, REMOTE_ADDR="") == [401]


def test_memory_is_bounded(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_keys, "REMEMBERED", 10)
    failures = failed_keys.Failures()
    for number in range(100):
        failures.count(RequestFactory().get("/", REMOTE_ADDR=f"192.0.2.{number}"))
    assert len(failures.windows) <= 10
