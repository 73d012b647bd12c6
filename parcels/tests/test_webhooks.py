"""Webhooks: the API, spreading, delivering, trying again, never twice at once."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from parcels.management.commands.sweeper import Sweeper
from parcels.models import (
    Account,
    DeliveryState,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from parcels.services import webhooks
from parcels.services.rooms import Rooms
from parcels.tests.factories import LabelledParcelFactory
from parcels.tests.requests import Shop
from parcels.webhooks.post import Answer
from parcels.webhooks.signing import dialect_signature

pytestmark = pytest.mark.django_db
URL = "https://receiver.example/hook"
TAKEN = Answer(200, "", 0.1)
REFUSED = Answer(500, "", 0.1)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes, dict[str, str]]]:
    """Take all that would be POSTed; the answer is 200."""
    taken: list[tuple[str, bytes, dict[str, str]]] = []

    def take(url: str, body: bytes, headers: dict[str, str], **_: Any) -> Answer:
        taken.append((url, body, headers))
        return TAKEN

    monkeypatch.setattr(webhooks, "post", take)
    return taken


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    tasks: list[tuple[str, Any]] = []

    def note(task: str, row_id: Any, queue: str) -> bool:
        tasks.append((task, row_id))
        return True

    monkeypatch.setattr(webhooks, "send", note)
    return tasks


def endpoint_of(account: Account, **fields: Any) -> WebhookEndpoint:
    return WebhookEndpoint.objects.create(account=account, url=URL, **fields)


def delivery_for(account: Account) -> WebhookDelivery:
    endpoint = WebhookEndpoint.objects.filter(account=account).first() or endpoint_of(account)
    parcel = LabelledParcelFactory.create(account=account)
    event = WebhookEvent.objects.create(account=account, parcel=parcel, status=1000)
    webhooks.spread(event.pk)
    return WebhookDelivery.objects.get(event=event, endpoint=endpoint)


def test_an_endpoint_is_made_and_its_secret_shown_once(shop: Shop) -> None:
    made = shop.post("webhooks", {"webhook": {"url": URL}}).json()["webhook"]
    assert made["secret"].startswith("whsec_")
    assert made["active"] is True
    shown = shop.get(f"webhooks/{made['id']}").json()["webhook"]
    assert "secret" not in shown
    assert shop.get("webhooks").json() == {"webhooks": [shown]}


def test_the_secret_is_encrypted_at_rest(shop: Shop) -> None:
    from django.db import connection

    secret = shop.post("webhooks", {"webhook": {"url": URL}}).json()["webhook"]["secret"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT secret FROM parcels_webhookendpoint")
        stored = cursor.fetchone()[0]
    assert secret not in stored
    assert WebhookEndpoint.objects.get().secret == secret


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


def test_an_endpoint_is_changed_and_deleted(shop: Shop) -> None:
    endpoint = endpoint_of(shop.account)
    changed = shop.put(f"webhooks/{endpoint.pk}", {"webhook": {"secret": "s" * 16}})
    assert "secret" not in changed.json()["webhook"]
    endpoint.refresh_from_db()
    assert (endpoint.secret, endpoint.url) == ("s" * 16, URL)
    assert shop.delete(f"webhooks/{endpoint.pk}").status_code == 204
    assert shop.get(f"webhooks/{endpoint.pk}").status_code == 404


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


def test_switching_off_ends_what_is_pending(shop: Shop) -> None:
    delivery = delivery_for(shop.account)
    shop.put(f"webhooks/{delivery.endpoint_id}", {"webhook": {"active": False}})
    delivery.refresh_from_db()
    assert delivery.state == DeliveryState.FAILED


def test_an_event_goes_to_each_active_endpoint_of_its_account_once(
    shop: Shop, other_shop: Shop
) -> None:
    ours = {endpoint_of(shop.account).pk, endpoint_of(shop.account).pk}
    endpoint_of(shop.account, is_active=False)
    endpoint_of(other_shop.account)
    parcel = LabelledParcelFactory.create(account=shop.account)
    event = WebhookEvent.objects.create(account=shop.account, parcel=parcel, status=1000)
    webhooks.spread(event.pk)
    webhooks.spread(event.pk)
    WebhookEvent.objects.update(spread_at=None)  # as if the first had died in between
    webhooks.spread(event.pk)
    made = WebhookDelivery.objects.values_list("endpoint", flat=True)
    assert sorted(made) == sorted(ours)


def test_an_event_is_written_where_somebody_listens(
    shop: Shop, woken: list[Any], django_capture_on_commit_callbacks: Any
) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account)
    event: dict[str, Any] = {"account_id": shop.account.pk, "parcel_id": parcel.pk, "status": 1000}
    webhooks.write_event(**event, at=timezone.now())
    assert not WebhookEvent.objects.exists()
    endpoint_of(shop.account)
    with django_capture_on_commit_callbacks(execute=True):
        webhooks.write_event(**event, at=timezone.now())
    assert woken == [("spread_event", str(WebhookEvent.objects.get().pk))]


def test_a_delivery_is_signed_and_says_what_a_get_says(
    shop: Shop, sent: list[Any], settings: Any
) -> None:
    settings.PUBLIC_URL = "http://testserver"
    delivery = delivery_for(shop.account)
    webhooks.deliver(delivery.pk)
    url, body, headers = sent[0]
    assert url == URL
    assert body == json.dumps(json.loads(body)).encode()
    assert headers["Sendcloud-Signature"] == dialect_signature(delivery.endpoint.secret, body)
    assert headers["webhook-id"] == str(delivery.event_id)
    payload = json.loads(body)
    shown = shop.get(f"parcels/{delivery.event.parcel_id}").json()["parcel"]
    assert payload["action"] == "parcel_status_changed"
    assert payload["parcel"] == shown
    assert abs(payload["timestamp"] / 1000 - timezone.now().timestamp()) < 60
    assert payload["carrier_status_change_timestamp"] is None
    delivery.refresh_from_db()
    assert (delivery.state, delivery.tries, delivery.last_status) == ("delivered", 1, 200)


def test_what_was_delivered_is_not_sent_again_by_a_second_message(
    shop: Shop, sent: list[Any]
) -> None:
    delivery = delivery_for(shop.account)
    for _ in range(3):
        webhooks.deliver(delivery.pk)
    assert len(sent) == 1


def test_only_one_of_two_claims_wins(shop: Shop) -> None:
    delivery = delivery_for(shop.account)
    assert webhooks.claim(delivery.pk) is not None
    assert webhooks.claim(delivery.pk) is None


def test_a_lease_that_ran_out_is_claimed_again_and_the_first_owner_is_fenced_off(
    shop: Shop, settings: Any
) -> None:
    settings.WEBHOOK_DEADLINE = -10  # leases that are over at once
    delivery = delivery_for(shop.account)
    first, second = webhooks.claim(delivery.pk), webhooks.claim(delivery.pk)
    assert first is not None
    assert second is not None
    webhooks.record(first, REFUSED)
    delivery.refresh_from_db()
    assert delivery.last_status is None
    webhooks.record(second, TAKEN)
    delivery.refresh_from_db()
    assert delivery.state == DeliveryState.DELIVERED


@pytest.mark.parametrize(
    ("tries", "shortest", "longest"),
    [(1, 270, 330), (2, 540, 660), (3, 1080, 1320), (4, 2160, 2640), (5, 3240, 3600)],
)
def test_the_waits_double_from_five_minutes_to_an_hour(
    tries: int, shortest: float, longest: float
) -> None:
    state, delay = webhooks.next_step(tries, REFUSED)
    assert state == DeliveryState.PENDING
    assert shortest <= delay <= longest


def test_the_tenth_failure_is_the_last() -> None:
    assert webhooks.next_step(9, REFUSED)[0] == DeliveryState.PENDING
    assert webhooks.next_step(10, REFUSED)[0] == DeliveryState.FAILED
    assert webhooks.next_step(10, TAKEN)[0] == DeliveryState.DELIVERED


def test_the_log_and_send_again(
    shop: Shop, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    delivery = delivery_for(shop.account)
    with monkeypatch.context() as patched:
        patched.setattr(webhooks, "post", lambda *_, **__: Answer(None, "time-out", 10.0))
        webhooks.deliver(delivery.pk)
    path = f"webhooks/{delivery.endpoint_id}/deliveries"
    shown = shop.get(path).json()["deliveries"][0]
    assert (shown["state"], shown["tries"], shown["last_error"]) == ("pending", 1, "time-out")
    assert [attempt["error"] for attempt in shown["attempts"]] == ["time-out"]
    webhooks.deliver(delivery.pk)
    assert not sent  # not due before five minutes have passed
    again = shop.post(f"webhooks/deliveries/{delivery.pk}/resend", {})
    assert again.status_code == 202
    assert again.json()["delivery"]["tries"] == 0
    webhooks.deliver(delivery.pk)
    assert len(sent) == 1
    assert WebhookAttempt.objects.count() == 2


def test_the_sweeper_finds_what_no_message_woke(shop: Shop, woken: list[Any]) -> None:
    endpoint_of(shop.account)
    parcel = LabelledParcelFactory.create(account=shop.account)
    WebhookEvent.objects.create(
        account=shop.account,
        parcel=parcel,
        status=1000,
        date_created=timezone.now() - timedelta(seconds=10),
    )
    assert webhooks.spread_forgotten() == 1
    assert webhooks.due_deliveries() == []
    WebhookDelivery.objects.update(wake_at=timezone.now() - timedelta(seconds=1))
    assert webhooks.due_deliveries() == [WebhookDelivery.objects.get().pk]
    assert webhooks.due_deliveries() == []


def test_rooms_have_two_limits() -> None:
    rooms = Rooms(whole=3, each=2)
    with rooms.enter(1) as a, rooms.enter(1) as b, rooms.enter(1) as c:
        assert (a, b, c) == (True, True, False)
        with rooms.enter(2) as d, rooms.enter(3) as e:
            assert (d, e) == (True, False)
    with rooms.enter(1) as again:
        assert again


def test_a_receiver_that_hangs_leaves_its_delivery_for_later(
    shop: Shop, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    delivery = delivery_for(shop.account)
    monkeypatch.setattr(webhooks, "ROOMS", Rooms(whole=1, each=0))
    webhooks.deliver(delivery.pk)
    delivery.refresh_from_db()
    assert (sent, delivery.tries) == ([], 0)


def aged(delivery: WebhookDelivery, days: float, state: DeliveryState) -> WebhookEvent:
    WebhookDelivery.objects.filter(pk=delivery.pk).update(state=state)
    WebhookAttempt.objects.create(delivery=delivery, duration=0.1, status=200)
    WebhookEvent.objects.filter(pk=delivery.event_id).update(
        date_created=timezone.now() - timedelta(days=days)
    )
    return delivery.event


def test_old_events_are_forgotten_with_all_that_belongs_to_them(shop: Shop) -> None:
    kept = [
        aged(delivery_for(shop.account), 29, DeliveryState.DELIVERED),
        aged(delivery_for(shop.account), 31, DeliveryState.PENDING),  # "send again", just now
    ]
    for state in (DeliveryState.DELIVERED, DeliveryState.FAILED):
        aged(delivery_for(shop.account), 31, state)
    aged(delivery_for(shop.account), 31, DeliveryState.DELIVERED).deliveries.all().delete()
    unspread = aged(delivery_for(shop.account), 31, DeliveryState.DELIVERED)
    WebhookEvent.objects.filter(pk=unspread.pk).update(spread_at=None)
    assert webhooks.forget_old() == 3
    assert set(WebhookEvent.objects.all()) == {*kept, unspread}
    assert WebhookDelivery.objects.count() == WebhookAttempt.objects.count() == 3
    assert webhooks.forget_old() == 0


def test_they_are_forgotten_in_portions_oldest_first(
    shop: Shop, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WEBHOOK_KEEP = 24 * 3600
    monkeypatch.setattr(webhooks, "ROWS_AT_ONCE", 2)
    *_, youngest = (
        aged(delivery_for(shop.account), days, DeliveryState.DELIVERED) for days in (4, 3, 2)
    )
    assert webhooks.forget_old() == 2
    assert list(WebhookEvent.objects.all()) == [youngest]
    assert webhooks.forget_old() == 1


def test_a_round_of_the_sweeper_forgets_them(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    aged(delivery_for(shop.account), 31, DeliveryState.DELIVERED)
    monkeypatch.setattr("parcels.management.commands.sweeper.broker_identity", lambda: None)
    monkeypatch.setattr("parcels.management.commands.sweeper.connection.close", lambda: None)
    sweeper = Sweeper()
    assert sweeper.round()
    sweeper.end()
    assert not WebhookEvent.objects.exists()
