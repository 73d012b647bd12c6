"""Webhooks: the API of endpoints, and how they are changed and deleted."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection
from django.http import Http404
from django.utils import timezone

from parcels import limits
from parcels.models import (
    Integration,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from parcels.services import webhooks
from parcels.tests.hooks import (
    REFUSED,
    TAKEN,
    URL,
    delivery_for,
    endpoint_of,
    sweep_once,
)
from parcels.tests.requests import Shop
from parcels.webhooks.post import Answer

pytestmark = pytest.mark.django_db


def test_an_endpoint_is_made_and_its_secret_shown_once(shop: Shop) -> None:
    made = shop.post("webhooks", {"webhook": {"url": URL}}).json()["webhook"]
    assert made["secret"].startswith("whsec_")
    assert made["active"] is True
    shown = shop.get(f"webhooks/{made['id']}").json()["webhook"]
    assert "secret" not in shown
    assert shop.get("webhooks").json() == {"webhooks": [shown]}


def test_the_secret_is_encrypted_at_rest(shop: Shop) -> None:
    secret = shop.post("webhooks", {"webhook": {"url": URL}}).json()["webhook"]["secret"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT secret FROM parcels_webhookendpoint")
        stored = cursor.fetchone()[0]
    assert secret not in stored
    assert WebhookEndpoint.objects.get().secret == secret


def test_a_secret_of_the_shop_s_own_is_kept_as_it_is(shop: Shop) -> None:
    secret = " has a blank on each side "
    made = shop.post("webhooks", {"webhook": {"url": URL, "secret": secret}}).json()["webhook"]
    assert made["secret"] == WebhookEndpoint.objects.get().secret == secret


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"url": ""},
        {"url": None},
        {"url": 7},
        {"url": "http://receiver.example/"},
        {"url": "https://receiver.example:22/"},
        {"url": "https://u:p@receiver.example/"},
        {"url": URL, "secret": "short"},
        {"url": URL, "secret": " \n" * 8},
        {"url": URL, "secret": None},
        {"url": URL, "active": "perhaps"},
        {"url": "https://receiver.example/" + "x" * 2048},
    ],
)
def test_what_is_no_endpoint_is_a_400(shop: Shop, settings: Any, fields: dict[str, Any]) -> None:
    settings.DEMO = settings.WEBHOOK_ALLOW_PRIVATE = False
    response = shop.post("webhooks", {"webhook": fields})
    assert response.status_code == 400
    assert response.json()["error"]["request"] == "api/v2/webhooks"


@pytest.mark.parametrize("payload", [None, [], 7, {}, {"webhook": None}, {"webhook": []}])
def test_a_body_of_another_shape_is_a_400(shop: Shop, payload: Any) -> None:
    assert shop.post("webhooks", payload).status_code == 400


def test_at_most_ten(shop: Shop) -> None:
    answers = [shop.post("webhooks", {"webhook": {"url": URL}}).status_code for _ in range(11)]
    assert answers == [200] * 10 + [400]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite's writers take turns")
@pytest.mark.django_db(transaction=True)
def test_of_two_at_once_the_second_counts_the_first(shop: Shop) -> None:
    for _ in range(limits.WEBHOOKS - 1):
        endpoint_of(shop.account)
    answers: list[int] = []

    def make() -> None:
        try:
            answers.append(shop.post("webhooks", {"webhook": {"url": URL}}).status_code)
        finally:
            connection.close()

    second = threading.Thread(target=make)

    def meanwhile(sql: str, _: Any) -> None:
        if 'INSERT INTO "parcels_webhookendpoint"' in sql and second.ident is None:
            second.start()
            second.join(0.5)  # or it waits for the first

    with statements(meanwhile):
        first = shop.post("webhooks", {"webhook": {"url": URL}}).status_code
    second.join()
    assert (first, answers) == (200, [400])
    assert WebhookEndpoint.objects.count() == limits.WEBHOOKS


def test_an_endpoint_is_changed_and_deleted(shop: Shop) -> None:
    endpoint = endpoint_of(shop.account)
    changed = shop.put(f"webhooks/{endpoint.pk}", {"webhook": {"secret": "s" * 16}})
    assert "secret" not in changed.json()["webhook"]
    endpoint.refresh_from_db()
    assert (endpoint.secret, endpoint.url) == ("s" * 16, URL)
    assert shop.delete(f"webhooks/{endpoint.pk}").status_code == 204
    assert shop.get(f"webhooks/{endpoint.pk}").status_code == 404


def test_a_change_writes_nothing_else_and_revives_nothing(shop: Shop) -> None:
    endpoint = endpoint_of(shop.account)
    WebhookEndpoint.objects.update(base_url="https://by-another.example", is_active=False)
    change: dict[str, Any] = {
        "endpoint": endpoint,
        "url": f"{URL}2",
        "secret": None,
        "is_active": None,
    }
    assert webhooks.update_endpoint(**change).is_active is False
    endpoint.refresh_from_db()
    assert (endpoint.url, endpoint.base_url) == (f"{URL}2", "https://by-another.example")
    WebhookEndpoint.objects.all().delete()
    with pytest.raises(Http404):
        webhooks.update_endpoint(**change)
    assert not WebhookEndpoint.objects.exists()


def test_a_change_of_nothing_changes_nothing(shop: Shop) -> None:
    endpoint = endpoint_of(shop.account, is_active=False)
    assert shop.put(f"webhooks/{endpoint.pk}", {"webhook": {}}).status_code == 200


def test_another_account_sees_nothing(shop: Shop, other_shop: Shop) -> None:
    delivery = delivery_for(shop.account)
    path = f"webhooks/{delivery.endpoint_id}"
    assert other_shop.get("webhooks").json() == {"webhooks": []}
    assert other_shop.get(path).status_code == 404
    assert other_shop.put(path, {"webhook": {"url": URL}}).status_code == 404
    assert other_shop.delete(path).status_code == 404
    assert other_shop.get(f"{path}/deliveries").status_code == 404
    assert other_shop.post(f"webhooks/deliveries/{delivery.pk}/resend", {}).status_code == 404
    assert shop.get(path).status_code == 200


@contextmanager
def statements(note: Callable[[str, Any], None]) -> Iterator[None]:
    """Have each statement noted before it is executed."""

    def wrap(execute: Any, sql: str, params: Any, *given: Any) -> Any:
        note(sql, params)
        return execute(sql, params, *given)

    with connection.execute_wrapper(wrap):
        yield


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("owner", ["webhook", "address", "integration"])
def test_deleting_has_no_parameter_for_each_delivery(
    shop: Shop, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL takes 65,535 in a statement."""
    monkeypatch.setattr(webhooks, "DELETED_AT_ONCE", 3, raising=False)
    integration = Integration.objects.create(account=shop.account, shop_name="Shop")
    endpoint = endpoint_of(shop.account, integration=integration)
    other = endpoint_of(shop.account)
    for _ in range(7):
        delivery = delivery_for(shop.account)
        WebhookAttempt.objects.create(delivery=delivery, duration=0.1)
    most = 0

    def count(sql: str, params: Any) -> None:
        nonlocal most
        if "_webhookdelivery" in sql or "_webhookattempt" in sql:
            most = max(most, len(params))

    seen: list[bool] = []
    portions: list[int] = []

    def look(sql: str, params: Any) -> None:
        count(sql, params)
        if 'DELETE FROM "parcels_webhookdelivery"' in sql:
            seen.append(WebhookEndpoint.objects.get(pk=endpoint.pk).is_active)
            portions.append(len(connection.savepoint_ids))

    with statements(look):
        if owner == "address":
            shop.patch(f"integrations/{integration.pk}", {"webhook_url": ""})
        else:
            deleted = endpoint if owner == "webhook" else integration
            assert shop.delete(f"{owner}s/{deleted.pk}").status_code == 204
    assert most <= 4
    assert seen[:3] == [False] * 3  # no event is spread to it meanwhile
    assert portions[:3] == [0] * 3  # each has its commit
    assert [each.endpoint for each in WebhookDelivery.objects.all()] == [other] * 7
    assert not WebhookAttempt.objects.exists()
    assert WebhookEndpoint.objects.get() == other


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite's writers take turns")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("moment", "answer"),
    [
        ('DELETE FROM "parcels_webhookendpoint"', None),
        ('DELETE FROM "parcels_webhookdelivery"', TAKEN),
        ('FROM "parcels_webhookdelivery"', REFUSED),
    ],
    ids=["spread", "taken", "refused"],
)
def test_an_endpoint_in_use_is_deleted(shop: Shop, moment: str, answer: Answer | None) -> None:
    delivery = webhooks.claim(delivery_for(shop.account).pk)
    assert delivery
    parcel = delivery.event.parcel
    event = WebhookEvent.objects.create(account=shop.account, parcel=parcel, status=11)

    def use() -> None:
        try:
            # Its delivery or endpoint is gone; the sweeper spreads again.
            with suppress(IntegrityError):
                webhooks.record(delivery, answer) if answer else webhooks.spread(event.pk)
        finally:
            connection.close()

    user = threading.Thread(target=use)

    def meanwhile(sql: str, _: Any) -> None:
        if moment in sql and user.ident is None:
            user.start()
            user.join(0.5)  # or it waits for the deletion

    with statements(meanwhile):
        assert shop.delete(f"webhooks/{delivery.endpoint_id}").status_code == 204
    user.join()
    assert not WebhookDelivery.objects.exists()
    assert webhooks.spread(event.pk) == 0


def test_one_that_is_made_in_the_admin_is_as_the_api_s(
    shop: Shop, admin_client: Any, sent: list[Any], settings: Any
) -> None:
    settings.PUBLIC_URL = ""
    page = "/admin/parcels/webhookendpoint/add/"
    form = {"account": shop.account.pk, "url": URL, "is_active": "on"}
    refused = admin_client.post(page, form | {"url": f"{'x' * 200}://receiver.example/"})
    assert b"is not allowed" in refused.content
    assert admin_client.post(page, form).status_code == 302
    webhooks.deliver(delivery_for(shop.account).pk)
    links = json.loads(sent[0][1])["parcel"]["label"]
    assert links["label_printer"].startswith("http://testserver/api/v2/")


def test_one_whose_address_may_not_be_reached_is_switched_off_in_the_admin(
    shop: Shop, admin_client: Any
) -> None:
    endpoint = WebhookEndpoint.objects.create(account=shop.account, url="ftp://a.example/")
    page = f"/admin/parcels/webhookendpoint/{endpoint.pk}/change/"
    form = {"account": shop.account.pk, "url": endpoint.url}
    assert admin_client.post(page, form).status_code == 302
    assert not WebhookEndpoint.objects.get().is_active


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite's writers take turns")
@pytest.mark.django_db(transaction=True)
def test_a_change_in_the_admin_overwrites_nothing(shop: Shop, admin_client: Any) -> None:
    endpoint = endpoint_of(shop.account)

    def change() -> None:
        try:
            shop.put(f"webhooks/{endpoint.pk}", {"webhook": {"secret": "s" * 16}})
        finally:
            connection.close()

    other = threading.Thread(target=change)

    def meanwhile(sql: str, _: Any) -> None:
        if 'UPDATE "parcels_webhookendpoint"' in sql and other.ident is None:
            other.start()
            other.join(0.5)  # or it waits for the admin

    page = f"/admin/parcels/webhookendpoint/{endpoint.pk}/change/"
    form = {"account": shop.account.pk, "url": f"{URL}2", "is_active": "on"}
    with statements(meanwhile):
        assert admin_client.post(page, form).status_code == 302
    other.join()
    endpoint.refresh_from_db()
    assert (endpoint.url, endpoint.secret) == (f"{URL}2", "s" * 16)


def test_one_keeps_its_account_in_the_admin(
    shop: Shop, other_shop: Shop, admin_client: Any
) -> None:
    """What waits for it is about that account's parcels."""
    endpoint = endpoint_of(shop.account)
    page = f"/admin/parcels/webhookendpoint/{endpoint.pk}/change/"
    form = {"account": other_shop.account.pk, "url": f"{URL}2", "is_active": "on"}
    assert admin_client.post(page, form).status_code == 302
    endpoint.refresh_from_db()
    assert (endpoint.account, endpoint.url) == (shop.account, f"{URL}2")


@pytest.mark.django_db(transaction=True)
def test_the_history_in_the_admin_takes_any_method(shop: Shop, admin_client: Any) -> None:
    """Django answers it outside a transaction, where PostgreSQL locks no row."""
    page = f"/admin/parcels/webhookendpoint/{endpoint_of(shop.account).pk}/history/"
    assert admin_client.post(page).status_code == 200


@pytest.mark.parametrize("by", ["shop", "admin"])
def test_switching_off_ends_what_is_pending_in_portions(
    shop: Shop, admin_client: Any, sent: list[Any], by: str
) -> None:
    """One statement for some hundred thousand would be cut, and the endpoint stay on."""
    endpoint = endpoint_of(shop.account)
    for _ in range(3):
        delivery_for(shop.account)
    # While an endpoint fails its deliveries come one by one.
    WebhookEndpoint.objects.update(failures=1, retry_at=timezone.now() + timedelta(hours=1))
    executed: list[str] = []
    with statements(lambda sql, _: executed.append(sql)):
        if by == "shop":
            shop.put(f"webhooks/{endpoint.pk}", {"webhook": {"active": False}})
        else:
            page = f"/admin/parcels/webhookendpoint/{endpoint.pk}/change/"
            admin_client.post(page, {"account": shop.account.pk, "url": URL})
    assert not any("_webhookdelivery" in sql for sql in executed)
    WebhookDelivery.objects.update(wake_at=timezone.now() - timedelta(seconds=1))
    sweep_once()
    assert not sent
    states = WebhookDelivery.objects.values_list("state", "last_error")
    assert list(states) == [("failed", webhooks.SWITCHED_OFF)] * 3
