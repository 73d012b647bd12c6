"""Tracking: events from the carriers' feed, once each, and what a shop sees of them."""

import json
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from carriers.messages import CarrierResponse
from carriers.outcomes import NotSent
from parcels.models import (
    Announcement,
    FeedCursor,
    Parcel,
    SpareLabel,
    State,
    TrackingEvent,
    WebhookEndpoint,
    WebhookEvent,
)
from parcels.services import review, tracking_feed
from parcels.statuses import Status
from parcels.tests.factories import AnnouncementFactory, LabelledParcelFactory, ParcelFactory
from parcels.tests.requests import Shop
from parcels.tracking import parent_status

pytestmark = pytest.mark.django_db
Feed = Callable[..., list[str]]


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Feed:
    """Return a function that lays down the feed's events; it returns the paths asked for."""
    settings.TRACKING_FEED_URL = "http://feed.example"

    def lay_down(*events: dict[str, Any], body: bytes | None = None) -> list[str]:
        asked: list[str] = []

        def perform(steps: Any, *_: Any) -> Any:
            request = next(steps)
            asked.append(request.path)
            since = int(request.path.split("since=")[1].split("&")[0])
            page = [event for event in events if event["seq"] > since]
            answer = body if body is not None else json.dumps({"events": page}).encode()
            try:
                steps.send(CarrierResponse(200, {}, answer))
            except StopIteration as end:
                return end.value

        monkeypatch.setattr("carriers.transport.perform", perform)
        return asked

    return lay_down


def event(parcel: Parcel, seq: int, status: int, **changes: Any) -> dict[str, Any]:
    at = timezone.now().timestamp() - 60 + seq
    number = parcel.tracking_number
    return {
        "seq": seq,
        "at": at,
        "carrier": "postnl",
        "tracking_number": number,
        "status": status,
    } | changes


def status_of(parcel: Parcel) -> int:
    return Parcel.objects.get(pk=parcel.pk).status


def test_an_event_moves_its_parcel_and_tells_the_shop(shop: Shop, feed: Feed) -> None:
    WebhookEndpoint.objects.create(account=shop.account, url="https://shop.example/hook")
    parcel = LabelledParcelFactory.create(account=shop.account)
    happened = event(parcel, 7, 22)
    feed(happened)
    tracking_feed.Follower().catch_up()
    assert status_of(parcel) == 22
    told = WebhookEvent.objects.get()
    assert (told.parcel_id, told.status) == (parcel.pk, 22)
    assert told.carrier_changed_at is not None
    assert told.carrier_changed_at.timestamp() == pytest.approx(happened["at"])
    assert FeedCursor.objects.get().seq == 7


def test_each_event_counts_once(shop: Shop, feed: Feed) -> None:
    WebhookEndpoint.objects.create(account=shop.account, url="https://shop.example/hook")
    parcel = LabelledParcelFactory.create(account=shop.account)
    asked = feed(event(parcel, 7, 22), event(parcel, 8, 91))
    tracking_feed.read_page()
    tracking_feed.read_page()
    assert [path.split("&")[0] for path in asked] == [
        "/tracking/events?since=0",
        "/tracking/events?since=8",
    ]
    # A feed that starts over, and a second sweeper that has read the same page.
    FeedCursor.objects.update(seq=0)
    tracking_feed.read_page()
    page = tracking_feed.Page((), 9)
    assert not tracking_feed.store(since=3, page=page)
    assert TrackingEvent.objects.count() == 2
    assert WebhookEvent.objects.count() == 2
    assert status_of(parcel) == 91


def test_a_number_twice_in_a_page_is_one_event(shop: Shop, feed: Feed) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account)
    feed(event(parcel, 7, 22), event(parcel, 7, 22), event(parcel, 8, 91))
    tracking_feed.read_page()
    assert FeedCursor.objects.get().seq == 8
    assert TrackingEvent.objects.count() == 2


@pytest.mark.parametrize(
    "status",
    [
        Status.CANCELLED,
        Status.CANCELLED_UPSTREAM,
        Status.CANCELLATION_REQUESTED,
        Status.SUBMITTING_CANCELLATION,
        Status.BEING_ANNOUNCED,
    ],
)
def test_no_event_revives_a_cancelled_parcel(shop: Shop, feed: Feed, status: Status) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account, status=status)
    feed(event(parcel, 1, 91))
    tracking_feed.read_page()
    assert status_of(parcel) == status
    assert TrackingEvent.objects.get().parcel == parcel


@pytest.mark.parametrize("status", tracking_feed.OURS)
def test_no_event_sets_what_only_we_decide(shop: Shop, feed: Feed, status: Status) -> None:
    """Else 999 would have a bought parcel deleted, and 1001 would have its client wait for ever."""
    parcel = LabelledParcelFactory.create(account=shop.account)
    feed(event(parcel, 1, status))
    tracking_feed.read_page()
    assert status_of(parcel) == Status.READY_TO_SEND
    assert TrackingEvent.objects.get().status == status


def test_announced_adds_nothing_to_ready_to_send(shop: Shop, feed: Feed) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account)
    feed(event(parcel, 1, 1))
    tracking_feed.read_page()
    assert status_of(parcel) == Status.READY_TO_SEND
    assert not TrackingEvent.objects.exists()


def test_an_event_that_is_ahead_of_its_label_waits_for_it(shop: Shop, feed: Feed) -> None:
    parcel = ParcelFactory.create(account=shop.account)
    feed(event(parcel, 1, 22, tracking_number="3SNEW"), event(parcel, 2, 91, tracking_number="X"))
    follower = tracking_feed.Follower()
    follower.catch_up()
    assert TrackingEvent.objects.filter(parcel=None).count() == 2
    Parcel.objects.update(tracking_number="3SNEW", status=Status.READY_TO_SEND)
    follower.catch_up()
    assert status_of(parcel) == 22


def test_an_event_waits_for_a_label_that_a_person_adopts(
    shop: Shop, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However late that is, and whatever the carrier's clock says."""
    monkeypatch.setattr(tracking_feed, "UNMATCHED_AT_MOST", 2)
    doubt = AnnouncementFactory.create(
        state=State.NEEDS_REVIEW, parcel__account=shop.account, parcel__carrier="lantern"
    )
    theirs = {"carrier": "lantern", "tracking_number": "3S7"}
    feed(
        *(event(doubt.parcel, seq, 22, tracking_number="X") for seq in range(1, 9)),
        event(doubt.parcel, 9, 91, at=1e9, **theirs),
        event(doubt.parcel, 10, 11, at=1e9 + 1, **theirs),
    )
    tracking_feed.Follower().catch_up()
    assert TrackingEvent.objects.filter(parcel=None).count() == 2
    review.adopt(doubt, review.Label("3S7"), by="operator")
    tracking_feed.match_early()
    assert status_of(doubt.parcel) == 11


def test_events_of_a_spare_label_stay_while_it_is_open(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They tell a label that is on its way from one whose void was answered to nobody."""
    monkeypatch.setattr(tracking_feed, "UNMATCHED_AT_MOST", 1)
    announcement = AnnouncementFactory.create(state=State.ANNOUNCED)
    SpareLabel.objects.create(
        announcement=announcement, carrier_id="c-8", tracking_number="3S8", source="lookup"
    )
    foreign = [
        event(announcement.parcel, seq, 22, tracking_number="X", at=1e9) for seq in range(2, 5)
    ]
    feed(event(announcement.parcel, 1, 22, tracking_number="3S8", at=1e9), *foreign)
    tracking_feed.Follower().catch_up()
    assert list(TrackingEvent.objects.order_by("seq").values_list("seq", flat=True)) == [1, 4]


def test_a_number_of_another_carrier_s_parcels_keeps_no_event_from_its_own(
    shop: Shop, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking_feed, "NUMBERS_AT_ONCE", 1)
    other = LabelledParcelFactory.create(account=shop.account, carrier="colibri")
    parcel = LabelledParcelFactory.create(account=shop.account)
    for each in (other, parcel):
        TrackingEvent.objects.create(
            **event(each, each.pk, 22) | {"at": timezone.now(), "carrier": "postnl"}
        )
    after = tracking_feed.match_early()
    assert after == min(other.tracking_number, parcel.tracking_number)
    assert tracking_feed.match_early(tracking_feed.match_early(after)) == ""
    assert (status_of(other), status_of(parcel)) == (Status.READY_TO_SEND, 22)


def test_an_event_that_was_ahead_of_its_label_does_not_hide_a_newer_one(
    shop: Shop, feed: Feed
) -> None:
    parcel = ParcelFactory.create(account=shop.account)
    early = event(parcel, 1, 22, tracking_number="3SNEW")
    feed(early)
    tracking_feed.Follower().catch_up()
    Parcel.objects.update(tracking_number="3SNEW", status=Status.READY_TO_SEND)
    feed(early, event(parcel, 2, 11, tracking_number="3SNEW"))
    tracking_feed.Follower().catch_up()
    assert TrackingEvent.objects.filter(parcel=parcel).count() == 2
    assert status_of(parcel) == 11


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite's writers take turns")
@pytest.mark.django_db(transaction=True)
def test_two_sweepers_with_events_of_one_parcel_take_turns(shop: Shop, feed: Feed) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account)
    early = event(parcel, 1, 22)
    TrackingEvent.objects.create(**early | {"at": timezone.now() - timedelta(minutes=1)})
    feed(early, event(parcel, 2, 11))

    def read() -> None:
        tracking_feed.read_page()
        connection.close()

    reader = threading.Thread(target=read)

    def meanwhile(execute: Any, sql: str, *given: Any) -> Any:
        if sql.startswith("UPDATE parcels_parcel") and reader.ident is None:
            reader.start()
            reader.join(0.5)  # or it waits for the parcel
        return execute(sql, *given)

    with connection.execute_wrapper(meanwhile):
        tracking_feed.match_early()
    reader.join()
    assert TrackingEvent.objects.filter(parcel=parcel).count() == 2
    assert status_of(parcel) == 11


def told() -> list[int]:
    return list(WebhookEvent.objects.order_by("date_created").values_list("status", flat=True))


@pytest.mark.parametrize(
    ("status", "delay", "statuses"),
    [
        (91, -5, [11]),  # uploaded late
        (91, 0, [11, 91]),  # at the same time the higher number counts
    ],
)
def test_the_status_is_that_of_the_newest_event(
    shop: Shop, feed: Feed, status: int, delay: float, statuses: list[int]
) -> None:
    WebhookEndpoint.objects.create(account=shop.account, url="https://shop.example/hook")
    parcel = LabelledParcelFactory.create(account=shop.account)
    first = event(parcel, 1, 11)
    second = event(parcel, 2, status, at=first["at"] + delay)
    feed(first)
    tracking_feed.read_page()
    feed(first, second)
    tracking_feed.read_page()
    assert told() == statuses
    assert status_of(parcel) == statuses[-1]


def test_an_event_that_sets_no_status_hides_none(shop: Shop, feed: Feed) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account)
    first = event(parcel, 1, Status.CANCELLED)
    feed(first)
    tracking_feed.read_page()
    feed(first, event(parcel, 2, 22, at=first["at"] - 5))
    tracking_feed.read_page()
    assert status_of(parcel) == 22


def test_a_page_is_told_in_the_order_in_which_it_happened(
    shop: Shop, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)
    WebhookEndpoint.objects.create(account=shop.account, url="https://shop.example/hook")
    parcel = LabelledParcelFactory.create(account=shop.account)
    late = event(parcel, 1, 11)
    feed(late, event(parcel, 2, 91, at=late["at"] - 5), event(parcel, 3, 22, at=late["at"] - 9))
    tracking_feed.read_page()
    assert told() == [22, 91, 11]
    assert status_of(parcel) == 11
    # A receiver tells by the timestamp, which has milliseconds.
    stamps = [int(each.date_created.timestamp() * 1000) for each in WebhookEvent.objects.all()]
    assert len(set(stamps)) == 3


def test_another_carrier_s_number_is_another_parcel_s(shop: Shop, feed: Feed) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account)
    feed(event(parcel, 1, 22, carrier="colibri"))
    tracking_feed.read_page()
    assert status_of(parcel) == Status.READY_TO_SEND


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"events": 3}',
        b'{"events": [{}]}',
        b'{"events": [{"seq": "x"}]}',
        b'{"events": [{"seq": 1e999}]}',
    ],
)
def test_a_feed_that_makes_no_sense_is_left_alone_for_a_while(feed: Feed, body: bytes) -> None:
    asked = feed(body=body)
    follower = tracking_feed.Follower()
    follower.catch_up()
    follower.catch_up()
    assert len(asked) == 1
    assert FeedCursor.objects.get().seq == 0


POISON: list[dict[str, Any]] = [
    {"status": 2**31},
    {"status": -1},
    {"status": "x"},
    {"status": None},
    {"status": float("inf")},
    {"at": 1e300},
    {"at": float("nan")},
    {"at": "now"},
    {"carrier": "a\0b"},
    {"carrier": "x" * 33},
    {"tracking_number": "\ud800"},
    {"tracking_number": "x" * 65},
    {"tracking_number": ""},
    {"tracking_number": 7},
]


@pytest.mark.parametrize("poison", POISON)
def test_an_event_that_cannot_be_stored_is_skipped(
    shop: Shop, feed: Feed, caplog: pytest.LogCaptureFixture, poison: dict[str, Any]
) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account)
    feed(event(parcel, 1, 22), event(parcel, 2, 91) | poison, event(parcel, 3, 11))
    assert tracking_feed.read_page() == 3
    assert status_of(parcel) == 11
    assert list(TrackingEvent.objects.order_by("seq").values_list("seq", flat=True)) == [1, 3]
    assert FeedCursor.objects.get().seq == 3
    assert "event 2 of the tracking feed is skipped" in caplog.text


@pytest.mark.parametrize("ahead", [2 * 3600, 25 * 3600, 2e11])
@pytest.mark.parametrize("pages", [1, 2])
def test_an_event_that_is_dated_ahead_hides_none_that_follows(
    shop: Shop, feed: Feed, ahead: float, pages: int
) -> None:
    """By a wrong time zone; and the year 8300, for which there is no partition."""
    parcel, now = LabelledParcelFactory.create(account=shop.account), timezone.now()
    van = event(parcel, 1, 92, at=now.timestamp() + ahead)
    # Read at once it happened before; of a backlog both have happened.
    delivered = event(
        parcel, 2, 11, at=(now.timestamp() + 60) if pages == 2 else now.timestamp() - 60
    )
    if pages == 2:
        feed(van)
        tracking_feed.read_page()
        assert abs((TrackingEvent.objects.get().at - now).total_seconds()) < 30
    feed(van, delivered)
    tracking_feed.read_page()
    assert status_of(parcel) == 11
    assert list(TrackingEvent.objects.order_by("at", "seq").values_list("seq", flat=True)) == [1, 2]


def test_an_event_without_a_number_is_skipped(feed: Feed, shop: Shop) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account)
    events = [event(parcel, 1, 22) | {"seq": None}, event(parcel, 2, 11)]
    feed(body=json.dumps({"events": events}).encode())
    assert tracking_feed.read_page() == 2
    assert (status_of(parcel), FeedCursor.objects.get().seq) == (11, 2)


def test_a_page_of_nothing_else_is_passed_over(shop: Shop, feed: Feed) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account)
    size = tracking_feed.EVENTS_AT_ONCE
    poison = [event(parcel, seq, 2**31) for seq in range(1, size + 1)]
    feed(*poison, event(parcel, size + 1, 11))
    tracking_feed.Follower().catch_up()
    assert status_of(parcel) == 11


def test_a_feed_that_is_away_is_left_alone_for_a_while(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed()
    calls: list[int] = []

    def perform(*_: Any) -> NotSent:
        calls.append(1)
        return NotSent("unreachable")

    monkeypatch.setattr("carriers.transport.perform", perform)
    follower = tracking_feed.Follower()
    follower.catch_up()
    follower.catch_up()
    assert calls == [1]


def test_the_journey_is_shown_newest_first(shop: Shop, feed: Feed) -> None:
    announced = timezone.now() - timedelta(seconds=59.5)
    parcel = LabelledParcelFactory.create(account=shop.account, date_announced=announced)
    AnnouncementFactory.create(parcel=parcel, state=State.ANNOUNCED)
    Announcement.objects.update(date_created=announced - timedelta(seconds=1))
    feed(event(parcel, 1, 22), event(parcel, 2, 91), event(parcel, 3, 11))
    tracking_feed.read_page()
    shown = shop.get(f"tracking/{parcel.tracking_number}").json()
    assert [step["parent_status"] for step in shown["statuses"]] == [
        "delivered",
        "shipment-on-route",
        "shipment-picked-up-by-driver",
        "ready-to-send",
        "announcing",
    ]
    assert all(
        isinstance(parse_datetime(step["carrier_update_timestamp"]), datetime)
        for step in shown["statuses"]
    )
    assert (shown["parcel_id"], shown["carrier_code"]) == (str(parcel.pk), "postnl")


def test_a_draft_is_being_announced_since_its_announcement(shop: Shop) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account)
    Parcel.objects.update(date_created=timezone.now() - timedelta(days=5))
    at = AnnouncementFactory.create(parcel=parcel, state=State.ANNOUNCED).date_created
    steps = shop.get(f"tracking/{parcel.tracking_number}").json()["statuses"]
    begun = [step for step in steps if step["parent_status"] == "announcing"]
    assert [step["carrier_update_timestamp"] for step in begun] == [at.isoformat()]


def test_every_status_has_a_slug() -> None:
    unknown = {status for status in Status if parent_status(status) == "unknown"}
    assert unknown == {Status.UNKNOWN_STATUS}
    assert parent_status(4711) == "unknown"


@pytest.mark.parametrize("number", ["X", "%00", "%0A", "a%2Fb", "x" * 300, "%F0%9F%93%A6"])
def test_an_unknown_number_is_404(shop: Shop, number: str) -> None:
    assert shop.get(f"tracking/{number}").status_code == 404


def test_another_account_s_number_is_404(shop: Shop, other_shop: Shop) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account)
    assert other_shop.get(f"tracking/{parcel.tracking_number}").status_code == 404


def test_the_page_is_stored_in_few_queries(
    shop: Shop, feed: Feed, django_assert_num_queries: Any
) -> None:
    parcels = LabelledParcelFactory.create_batch(10, account=shop.account)
    page = tracking_feed.Page(
        tuple(
            tracking_feed.Step(number, timezone.now(), "postnl", parcel.tracking_number, 1)
            for number, parcel in enumerate(parcels, start=1)
        ),
        10,
    )
    FeedCursor.objects.create(name=tracking_feed.FEED)
    # savepoint, cursor, release: news that is none costs nothing by parcel
    with django_assert_num_queries(3):
        tracking_feed.store(since=0, page=page)
