"""Webhooks: the API, spreading, delivering, trying again, never twice at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.db import IntegrityError, connection
from django.utils import timezone
from rest_framework.exceptions import NotFound

from parcels import metrics
from parcels.management.commands.sweeper import Sweeper
from parcels.models import (
    Account,
    DeliveryState,
    Integration,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from parcels.services import status, webhooks
from parcels.services.limiter import KeyedLimiter
from parcels.services.status import set_status
from parcels.statuses import Status
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

    def note(task: str, row_ids: Sequence[Any], queue: str) -> bool:
        tasks.extend((task, each) for each in row_ids)
        return True

    monkeypatch.setattr(webhooks, "send", note)
    monkeypatch.setattr(status, "send", note)
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
    with pytest.raises(NotFound):
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
    endpoint = endpoint_of(shop.account, is_active=False)
    set_status([parcel], "true", Status.ANNOUNCED)
    assert not WebhookEvent.objects.exists()
    WebhookEndpoint.objects.filter(pk=endpoint.pk).update(is_active=True)
    with django_capture_on_commit_callbacks(execute=True):
        set_status([parcel], "true", Status.READY_TO_SEND)
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


def test_a_delivery_is_claimed_only_when_it_is_due(shop: Shop) -> None:
    delivery = delivery_for(shop.account)
    first = webhooks.claim(delivery.pk)
    assert first
    webhooks.record(first, REFUSED)
    assert webhooks.claim(delivery.pk) is None
    due_again()
    assert webhooks.claim(delivery.pk)


def test_a_try_under_way_does_not_end_what_is_sent_again(shop: Shop) -> None:
    late = webhooks.claim(delivery_for(shop.account).pk)
    assert late
    webhooks.send_again(WebhookDelivery.objects.get())
    webhooks.record(late, REFUSED)
    assert webhooks.claim(late.pk)


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


def test_a_secret_that_no_key_reads_stops_no_other_account(
    shop: Shop, other_shop: Shop, woken: list[Any], sent: list[Any]
) -> None:
    old = timezone.now() - timedelta(seconds=10)
    for account in (shop.account, other_shop.account):
        endpoint_of(account)
        delivery_for(account)
        parcel = LabelledParcelFactory.create(account=account)
        WebhookEvent.objects.create(account=account, parcel=parcel, status=1000, date_created=old)
    WebhookDelivery.objects.update(wake_at=old)
    unreadable = Fernet(Fernet.generate_key()).encrypt(b"whsec_").decode()
    with connection.cursor() as cursor:
        mine = (unreadable, shop.account.pk)
        cursor.execute("UPDATE parcels_webhookendpoint SET secret = %s WHERE account_id = %s", mine)
    due = webhooks.due_deliveries()
    assert len(due) == 2
    assert webhooks.spread_forgotten() == 2
    for pk in due:
        webhooks.deliver(pk)
    tried = WebhookDelivery.objects.get(tries=1, endpoint__account=shop.account)
    assert tried.last_error == "its secret can't be read"
    assert tried.endpoint.failures == 1


def test_a_keyed_limiter_has_two_limits() -> None:
    limiter = KeyedLimiter(total=3, per_key=(2,))
    with limiter.enter(1) as a, limiter.enter(1) as b, limiter.enter(1) as c:
        assert (a, b, c) == (True, True, False)
        with limiter.enter(2) as d, limiter.enter(3) as e:
            assert (d, e) == (True, False)
    with limiter.enter(1) as again:
        assert again


def test_one_account_s_receivers_leave_room_for_the_others() -> None:
    """Even ten endpoints that all hang."""
    with ExitStack() as stack:
        entered = [
            stack.enter_context(webhooks.SENDING.enter(1, endpoint))
            for endpoint in range(10)
            for _ in range(20)
        ]
        assert sum(entered) == 16
        assert entered[:20] == [True] * 8 + [False] * 12
        assert stack.enter_context(webhooks.SENDING.enter(2, 10))


def test_sending_takes_no_turn_at_the_database(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Receivers that hang keep nobody from reading and writing; a thousand events come in turn."""
    delivery, turns = delivery_for(shop.account), threading.BoundedSemaphore(2)
    free: dict[str, int] = {}

    def note(name: str, result: Any) -> Callable[..., Any]:
        def noted(*_: Any, **__: Any) -> Any:
            free[name] = turns._value
            return result

        return noted

    monkeypatch.setattr(webhooks, "AT_WORK", turns)
    monkeypatch.setattr(webhooks, "post", note("sending", TAKEN))
    monkeypatch.setattr(webhooks, "body_of", note("reading", b""))
    monkeypatch.setattr(webhooks, "record", note("writing", None))
    monkeypatch.setattr(webhooks, "_spread", note("spreading", 0))
    webhooks.deliver(delivery.pk)
    webhooks.spread("")
    assert free == {"reading": 1, "sending": 2, "writing": 1, "spreading": 1}


def test_a_receiver_that_hangs_leaves_its_delivery_for_later(
    shop: Shop, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    delivery = delivery_for(shop.account)
    monkeypatch.setattr(webhooks, "SENDING", KeyedLimiter(total=1, per_key=(1, 0)))
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


def due_again(**of: Any) -> None:
    """Let the time until the next try pass, for the endpoint and for its deliveries."""
    past = timezone.now() - timedelta(seconds=1)
    WebhookEndpoint.objects.exclude(retry_at=None).update(retry_at=past)
    WebhookDelivery.objects.filter(**of).update(run_at=past, wake_at=past, lease_until=None)


def refuse(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have every receiver answer 500; return the addresses that were tried."""
    tried: list[str] = []

    def answer(url: str, *_: Any, **__: Any) -> Answer:
        tried.append(url)
        return REFUSED

    monkeypatch.setattr(webhooks, "post", answer)
    return tried


def sweep_once() -> list[int]:
    ids = webhooks.due_deliveries()
    for delivery_id in ids:
        webhooks.deliver(delivery_id)
    return ids


def test_a_failing_endpoint_is_tried_by_one_delivery_at_a_time(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliveries = [delivery_for(shop.account) for _ in range(5)]
    tried = refuse(monkeypatch)
    for delivery in deliveries:
        webhooks.deliver(delivery.pk)
    assert len(tried) == 1
    assert sweep_once() == []  # its delay runs
    due_again(tries=0)
    assert len(sweep_once()) == 1
    assert len(tried) == 2
    # Each try was another delivery's: one that its receiver refuses doesn't hold up the others.
    assert sorted(WebhookDelivery.objects.values_list("tries", flat=True)) == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("tries", [0, 1])
def test_a_failing_endpoint_is_tried_by_what_was_refused_least(shop: Shop, tries: int) -> None:
    """The oldest may be of a kind that its receiver always refuses."""
    refused, other = delivery_for(shop.account), delivery_for(shop.account)
    WebhookEndpoint.objects.update(failures=1, retry_at=timezone.now())
    for delivery, tried, age in ((refused, 3, 2), (other, tries, 1)):
        due = timezone.now() - timedelta(minutes=age)
        WebhookDelivery.objects.filter(pk=delivery.pk).update(tries=tried, wake_at=due)
    assert webhooks.due_deliveries() == [other.pk]


def test_what_is_under_way_while_another_tries_a_failing_endpoint_waits(
    shop: Shop, sent: list[Any]
) -> None:
    first, second = delivery_for(shop.account), delivery_for(shop.account)
    WebhookEndpoint.objects.update(failures=1, retry_at=timezone.now() - timedelta(seconds=1))

    def during(*_: Any, **__: Any) -> Answer:
        webhooks.deliver(second.pk)
        return REFUSED

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(webhooks, "post", during)
        webhooks.deliver(first.pk)
    second.refresh_from_db()
    assert second.tries == 0


def test_the_delay_of_an_endpoint_doubles_up_to_an_hour(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch)
    delays = []
    for _ in range(12):
        delivery = delivery_for(shop.account)
        due_again()
        webhooks.deliver(delivery.pk)
        endpoint = WebhookEndpoint.objects.get()
        assert endpoint.retry_at
        delays.append(round((endpoint.retry_at - timezone.now()).total_seconds()))
    assert delays == [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]
    assert endpoint.failures == 12


def test_failures_that_were_under_way_together_count_once(shop: Shop) -> None:
    claims = [webhooks.claim(delivery_for(shop.account).pk) for _ in range(8)]
    for claimed in claims:
        assert claimed
        webhooks.record(claimed, REFUSED)
    assert WebhookEndpoint.objects.get().failures == 1


def test_when_it_works_again_all_are_sent(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, sent: list[Any]
) -> None:
    deliveries = [delivery_for(shop.account) for _ in range(5)]
    with monkeypatch.context() as patched:
        refuse(patched)
        webhooks.deliver(deliveries[0].pk)
    due_again()
    assert len(sweep_once()) == 1
    assert len(sweep_once()) == 4
    assert len(sent) == 5
    endpoint = WebhookEndpoint.objects.get()
    assert (endpoint.failures, endpoint.failing_since, endpoint.retry_at) == (0, None, None)


def test_send_again_does_not_wait_for_the_endpoint_s_delay(shop: Shop, sent: list[Any]) -> None:
    delivery = delivery_for(shop.account)
    later = timezone.now() + timedelta(hours=1)
    WebhookEndpoint.objects.update(failures=9, failing_since=later, retry_at=later)
    webhooks.deliver(delivery.pk)
    assert not sent
    shop.post(f"webhooks/deliveries/{delivery.pk}/resend", {})
    webhooks.deliver(delivery.pk)
    assert len(sent) == 1
    assert WebhookEndpoint.objects.get().failures == 0


def test_no_message_is_sent_for_an_endpoint_that_fails(
    shop: Shop, woken: list[Any], django_capture_on_commit_callbacks: Any
) -> None:
    endpoint_of(shop.account, failures=1, retry_at=timezone.now())
    with django_capture_on_commit_callbacks(execute=True):
        delivery_for(shop.account)
    assert woken == []


def failing(account: Account, days: float, failures: int) -> WebhookEndpoint:
    now = timezone.now()
    since = now - timedelta(days=days)
    return endpoint_of(account, failures=failures, failing_since=since, retry_at=now)


def test_an_endpoint_that_fails_for_days_is_switched_off_with_a_notice(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = failing(shop.account, days=5.1, failures=10)
    waiting = [delivery_for(shop.account) for _ in range(3)]
    tried = refuse(monkeypatch)
    webhooks.deliver(waiting[0].pk)
    shown = shop.get("webhooks").json()["webhooks"][0]
    assert shown["active"] is False
    assert shown["disabled_reason"].startswith("every try has failed since 20")
    assert f"webhook {endpoint.pk} (account {shop.account.pk})" in caplog.text
    due_again()
    sweep_once()
    assert len(tried) == 1
    states = WebhookDelivery.objects.values_list("state", "last_error")
    assert set(states) == {("failed", webhooks.SWITCHED_OFF)}
    again = shop.put(f"webhooks/{endpoint.pk}", {"webhook": {"active": True}}).json()["webhook"]
    assert (again["active"], again["failing_since"], again["disabled_reason"]) == (True, None, "")


def test_an_old_try_switches_off_nothing_that_was_repaired_since(shop: Shop) -> None:
    endpoint = failing(shop.account, days=5.1, failures=10)
    old = webhooks.claim(delivery_for(shop.account).pk)
    assert old
    shop.put(f"webhooks/{endpoint.pk}", {"webhook": {"url": f"{URL}2"}})
    webhooks.record(old, REFUSED)
    endpoint.refresh_from_db()
    assert (endpoint.is_active, endpoint.failures) == (True, 0)


@pytest.mark.parametrize(("days", "failures"), [(4.9, 200), (30, 1)])
def test_it_stays_on_until_it_has_failed_for_long_and_often(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, days: float, failures: int
) -> None:
    failing(shop.account, days, failures)
    refuse(monkeypatch)
    webhooks.deliver(delivery_for(shop.account).pk)
    endpoint = WebhookEndpoint.objects.get()
    assert (endpoint.is_active, endpoint.failures) == (True, failures + 1)


def test_the_admin_forgets_failures_when_it_switches_on(shop: Shop, admin_client: Any) -> None:
    endpoint = failing(shop.account, days=6, failures=20)
    WebhookEndpoint.objects.update(is_active=False, disabled_reason="every try has failed")
    page = f"/admin/parcels/webhookendpoint/{endpoint.pk}/change/"
    assert "every try has failed" in admin_client.get(page).content.decode()
    form = {"account": shop.account.pk, "url": URL, "is_active": "on"}
    assert admin_client.post(page, form).status_code == 302
    endpoint.refresh_from_db()
    assert (endpoint.is_active, endpoint.failures, endpoint.disabled_reason) == (True, 0, "")


def test_what_was_due_for_too_long_fails_unsent(shop: Shop, sent: list[Any]) -> None:
    old, young = delivery_for(shop.account), delivery_for(shop.account)
    for delivery, days in ((old, 5.1), (young, 4.9)):
        due = timezone.now() - timedelta(days=days)
        WebhookDelivery.objects.filter(pk=delivery.pk).update(run_at=due, wake_at=due)
    sweep_once()
    old.refresh_from_db()
    assert (len(sent), old.state, old.last_error) == (1, DeliveryState.FAILED, webhooks.EXPIRED)
    webhooks.send_again(old)
    webhooks.deliver(old.pk)
    assert len(sent) == 2


def given_up() -> float:
    return metrics.WEBHOOK_TRIES.labels("failed")._value.get()


@pytest.mark.parametrize("why", [webhooks.EXPIRED, webhooks.SWITCHED_OFF])
def test_what_fails_unsent_is_counted(shop: Shop, why: str) -> None:
    delivery, before = delivery_for(shop.account), given_up()
    if why == webhooks.EXPIRED:
        WebhookDelivery.objects.update(run_at=timezone.now() - timedelta(days=5.1))
    else:
        WebhookEndpoint.objects.update(is_active=False)
    for _ in range(2):
        webhooks.deliver(delivery.pk)
    delivery.refresh_from_db()
    assert (delivery.last_error, given_up() - before) == (why, 1)


def test_a_round_s_rows_are_shared_by_accounts(
    shop: Shop, other_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "ROWS_AT_ONCE", 8)
    for _ in range(20):  # the oldest, and more than a round takes
        delivery_for(shop.account)
    for _ in range(3):
        delivery_for(other_shop.account)
    due_again()
    woken = WebhookDelivery.objects.filter(pk__in=webhooks.due_deliveries())
    assert woken.filter(endpoint__account=shop.account).count() == 4
    assert woken.filter(endpoint__account=other_shop.account).count() == 3
