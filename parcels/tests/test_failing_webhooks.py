"""Webhooks that fail: tried by one delivery at a time, switched off, and how they come back."""

from contextlib import suppress
from datetime import timedelta
from threading import BoundedSemaphore
from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone

from parcels import metrics
from parcels.management.commands.sweeper import Sweeper
from parcels.models import (
    Account,
    DeliveryState,
    WebhookDelivery,
    WebhookEndpoint,
)
from parcels.services import webhooks
from parcels.tests.hooks import (
    REFUSED,
    URL,
    delivery_for,
    due_again,
    endpoint_of,
    sweep_once,
)
from parcels.tests.requests import Shop
from parcels.webhooks.post import Answer

pytestmark = pytest.mark.django_db


def refuse(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have every receiver answer 500; return the addresses that were tried."""
    tried: list[str] = []

    def answer(url: str, *_: Any, **__: Any) -> Answer:
        tried.append(url)
        return REFUSED

    monkeypatch.setattr(webhooks, "post", answer)
    return tried


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


def test_a_message_too_many_takes_no_turn_of_a_failing_endpoint(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = delivery_for(shop.account), delivery_for(shop.account)
    tried = refuse(monkeypatch)
    webhooks.deliver(first.pk)
    WebhookEndpoint.objects.update(retry_at=timezone.now())
    for delivery in (first, second):
        webhooks.deliver(delivery.pk)
    assert len(tried) == 2


def test_the_delay_of_an_endpoint_doubles_up_to_an_hour(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch)
    delays, since = [], set()
    for _ in range(12):
        delivery = delivery_for(shop.account)
        due_again()
        webhooks.deliver(delivery.pk)
        endpoint = WebhookEndpoint.objects.get()
        assert endpoint.retry_at
        delays.append(round((endpoint.retry_at - timezone.now()).total_seconds()))
        since.add(endpoint.failing_since)
    assert delays == [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]
    assert endpoint.failures == 12
    assert len(since) == 1


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
    off = metrics.WEBHOOKS_OFF.labels("failing")._value
    before = off.get()
    webhooks.deliver(waiting[0].pk)
    assert off.get() == before + 1
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


def test_what_was_due_for_too_long_takes_no_turn_of_a_failing_endpoint(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one with an event each second is never tried again, nor switched off."""
    failing(shop.account, days=5.1, failures=200)
    for days in (5.1, 1):
        due = timezone.now() - timedelta(days=days)
        WebhookDelivery.objects.filter(pk=delivery_for(shop.account).pk).update(
            run_at=due, wake_at=due
        )
    tried = refuse(monkeypatch)
    sweep_once()
    assert len(tried) == 1
    assert not WebhookEndpoint.objects.get().is_active


def test_what_ends_its_processes_does_so_ever_more_seldom_ten_times(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivery, waits = delivery_for(shop.account), list[int]()

    def die(*_: Any) -> bytes:
        raise SystemExit

    monkeypatch.setattr(webhooks, "body_of", die)
    while delivery.state == DeliveryState.PENDING and len(waits) < 30:
        wait = delivery.wake_at - timezone.now() + timedelta(seconds=1)
        moved = {name: F(name) - wait for name in ("run_at", "wake_at", "lease_until")}
        WebhookDelivery.objects.update(**moved)
        with suppress(SystemExit):
            sweep_once()
        delivery.refresh_from_db()
        waits.append(round(wait.total_seconds()))
    assert (delivery.state, delivery.tries) == (DeliveryState.FAILED, 10), waits
    assert delivery.last_error == webhooks.NO_RESULT
    assert 2 * 3600 < sum(waits) < 6 * 3600
    assert waits == sorted(waits)


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


def test_without_a_broker_a_backlog_leaves_room_for_the_others(
    shop: Shop, other_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts = [shop.account] * 5 + [other_shop.account]
    wanted = [delivery_for(account).pk for account in accounts]
    due_again()
    monkeypatch.setattr("parcels.management.commands.sweeper.send", lambda *_: False)
    sweeper, sent = Sweeper(), list[int]()
    sweeper.room = BoundedSemaphore(2)
    monkeypatch.setattr(sweeper.pool, "submit", lambda *given: sent.append(given[-1]))
    sweeper._sweep_deliveries()
    assert sent == [wanted[0], wanted[-1]]
