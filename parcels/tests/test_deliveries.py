"""Webhooks: spreading, delivering, trying again, never twice at once; and forgetting."""

import json
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.db import connection
from django.http import Http404
from django.utils import timezone

from parcels.management.commands.sweeper import Sweeper
from parcels.models import (
    DeliveryState,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from parcels.services import webhooks
from parcels.services.ending import set_status
from parcels.services.limiter import KeyedLimiter
from parcels.statuses import Status
from parcels.tests.factories import LabelledParcelFactory
from parcels.tests.hooks import (
    REFUSED,
    TAKEN,
    URL,
    delivery_for,
    due_again,
    endpoint_of,
)
from parcels.tests.requests import Shop
from parcels.views.webhooks import delivery_payload
from parcels.webhooks.post import Answer
from parcels.webhooks.signing import dialect_signature

pytestmark = pytest.mark.django_db


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
    assert delivery.delivered_at


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


def test_what_was_delivered_stays_so_where_its_webhook_is_off(shop: Shop) -> None:
    delivery = delivery_for(shop.account)
    WebhookDelivery.objects.update(state=DeliveryState.DELIVERED)
    WebhookEndpoint.objects.update(is_active=False)
    stored = list(WebhookDelivery.objects.values())
    again = shop.post(f"webhooks/deliveries/{delivery.pk}/resend", {})
    assert (again.status_code, list(WebhookDelivery.objects.values())) == (409, stored)


def test_what_was_deleted_meanwhile_is_not_found(shop: Shop) -> None:
    delivery_for(shop.account)
    delivery = WebhookDelivery.objects.select_related("event").get()
    webhooks.send_again(delivery)
    WebhookEvent.objects.all().delete()  # as the sweeper does, past WEBHOOK_KEEP
    assert delivery_payload(delivery)["state"] == "pending"
    with pytest.raises(Http404):
        webhooks.send_again(delivery)


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


def test_a_delivery_that_is_sent_again_without_end_has_a_short_log(shop: Shop) -> None:
    """A hundred times a minute may a shop; each answer about its deliveries has the whole log."""
    delivery, other = delivery_for(shop.account), delivery_for(shop.account)
    log = [WebhookAttempt(delivery=delivery, duration=n) for n in range(25)]
    WebhookAttempt.objects.bulk_create([*log, WebhookAttempt(delivery=other, duration=99)])
    webhooks.send_again(delivery)
    kept = WebhookAttempt.objects.order_by("pk").values_list("duration", flat=True)
    assert list(kept) == [*range(5, 25), 99]


def test_the_sweeper_finds_what_no_message_woke(shop: Shop, woken: list[Any]) -> None:
    endpoint_of(shop.account)
    parcel = LabelledParcelFactory.create(account=shop.account)
    for age in (0, 10):  # of the first a message may be on its way
        WebhookEvent.objects.create(
            account=shop.account,
            parcel=parcel,
            status=1000,
            date_created=timezone.now() - timedelta(seconds=age),
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
        assert limiter.has_room()
        assert not limiter.has_room(1)
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


def test_several_accounts_receivers_leave_room_for_another_s() -> None:
    """Their sends may end, and be followed by others, for as long as they like."""
    with ExitStack() as stack:
        for _ in range(20):
            for account in range(10):
                stack.enter_context(webhooks.SENDING.enter(account, account))
        assert stack.enter_context(webhooks.SENDING.enter(10, 10))


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
    monkeypatch.setattr(WebhookDelivery.objects, "bulk_create", note("spreading", []))
    webhooks.deliver(delivery.pk)
    WebhookEvent.objects.update(spread_at=None)
    webhooks.spread(delivery.event_id)
    assert free == {"reading": 1, "sending": 2, "writing": 1, "spreading": 1}


def test_a_receiver_that_hangs_leaves_its_delivery_for_later(
    shop: Shop, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    delivery = delivery_for(shop.account)
    monkeypatch.setattr(webhooks, "SENDING", KeyedLimiter(total=1, per_key=(1, 0)))
    monkeypatch.setattr(webhooks, "TURNED_AWAY", defaultdict(deque))
    webhooks.deliver(delivery.pk)
    delivery.refresh_from_db()
    assert (sent, delivery.tries) == ([], 0)


@pytest.mark.parametrize(
    ("limits", "answer", "wakes"),
    [
        ((3, 2, 1), TAKEN, True),
        ((3, 2, 1), REFUSED, False),  # a failing endpoint is tried by one, and later
        ((1, 2, 1), TAKEN, False),  # another account may wait for the only place
        ((2, 1, 1), TAKEN, False),  # or another endpoint of this account
    ],
)
def test_one_that_was_taken_wakes_the_next_that_found_no_place(
    shop: Shop,
    woken: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    limits: tuple[int, int, int],
    answer: Answer,
    wakes: bool,
) -> None:
    """Else a burst for a slow receiver sends eight, and eight more when the sweeper looks again."""
    first, second, third = (delivery_for(shop.account) for _ in range(3))
    total, *per_key = limits
    monkeypatch.setattr(webhooks, "SENDING", KeyedLimiter(total=total, per_key=tuple(per_key)))
    monkeypatch.setattr(webhooks, "TURNED_AWAY", defaultdict(deque))

    def meanwhile(*_: Any, **__: Any) -> Answer:
        webhooks.deliver(second.pk)
        webhooks.deliver(third.pk)
        WebhookDelivery.objects.filter(pk=second.pk).update(state=DeliveryState.DELIVERED)
        return answer

    monkeypatch.setattr(webhooks, "post", meanwhile)
    woken.clear()
    webhooks.deliver(first.pk)
    assert woken == [("deliver", third.pk)] * wakes


def test_a_burst_is_sent_without_the_sweeper(
    shop: Shop, woken: list[Any], sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else some hundreds of them wait for it, up to WAKE_AGAIN, while nothing is sent."""
    first = delivery_for(shop.account)
    parcel, endpoint = first.event.parcel, first.endpoint
    of_parcel = {"account": shop.account, "parcel": parcel, "spread_at": timezone.now()}
    events = [WebhookEvent(status=1000, **of_parcel) for _ in range(2 * webhooks.ROWS_AT_ONCE)]
    burst = WebhookDelivery.objects.bulk_create(
        WebhookDelivery(event=event, endpoint=endpoint)
        for event in WebhookEvent.objects.bulk_create(events)
    )
    monkeypatch.setattr(webhooks, "SENDING", KeyedLimiter(total=3, per_key=(2, 1)))
    with webhooks.SENDING.enter(shop.account.pk, endpoint.pk):
        for delivery in burst:
            webhooks.deliver(delivery.pk)
    woken[:] = [("deliver", first.pk)]
    while woken:
        webhooks.deliver(woken.pop()[1])
    assert not WebhookDelivery.objects.exclude(state=DeliveryState.DELIVERED).exists()
    assert len(sent) == len(burst) + 1


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
