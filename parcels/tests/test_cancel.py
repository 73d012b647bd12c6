"""Cancelling: what is deleted, withdrawn, asked of the carrier, refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from time import monotonic
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone

from carriers.outcomes import (
    Absent,
    Announced,
    Found,
    LookupResult,
    NotSent,
    Outcome,
    Refused,
    Unknown,
    Voided,
    VoidResult,
)
from carriers.tracking_feed import Page, Step
from parcels.models import (
    Announcement,
    Attempt,
    FeedCursor,
    Hold,
    Parcel,
    SpareLabel,
    SpareState,
    State,
    TrackingEvent,
    WebhookEndpoint,
    WebhookEvent,
)
from parcels.representation import Question
from parcels.services import cancel as cancelling
from parcels.services import protect, review, spares, tracking_feed, void
from parcels.services.announce import announce
from parcels.services.call_and_wait import job_for
from parcels.services.claim import MAX_CLAIMS, claim, prepare
from parcels.services.clock import DatabaseNow
from parcels.services.holds import Asked, open_hold
from parcels.services.job import Result
from parcels.services.record import finish
from parcels.statuses import Status
from parcels.tests.factories import AnnouncementFactory, LabelledParcelFactory, ParcelFactory
from parcels.tests.requests import Shop, body

Sent = list[tuple[str, int, str]]
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _listener(shop: Shop) -> None:
    WebhookEndpoint.objects.create(account=shop.account, url="https://shop.example/hook")


@pytest.fixture
def bought(shop: Shop) -> Announcement:
    """Return the announcement of a parcel whose label was bought."""
    parcel = LabelledParcelFactory.create(account=shop.account)
    return AnnouncementFactory.create(parcel=parcel, state=State.ANNOUNCED, carrier_id="c-1")


Answers = Callable[..., list[Any]]


@pytest.fixture
def carrier_says(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Return a function that lays down what the carrier will answer, call by call."""

    def lay_down(*results: VoidResult | LookupResult | Outcome) -> list[Any]:
        calls: list[Any] = []
        left = list(results)

        def perform(steps: Any, *_: Any, **__: Any) -> Any:
            calls.append(steps)
            return left.pop(0)

        monkeypatch.setattr("carriers.transport.perform", perform)
        return calls

    return lay_down


def cancel(shop: Shop, parcel: Parcel) -> tuple[int, str]:
    answer = shop.post(f"parcels/{parcel.pk}/cancel", None)
    assert list(answer.json()) == ["status", "message"]
    return answer.status_code, answer.json()["status"]


def status_of(parcel: Parcel) -> int:
    return Parcel.objects.get(pk=parcel.pk).status


def events() -> list[int]:
    return list(WebhookEvent.objects.order_by("date_created").values_list("status", flat=True))


def test_an_order_whose_first_colli_were_cancelled_is_not_made_again(shop: Shop) -> None:
    order = {"parcels": [body(quantity=3, external_reference="M")]}
    colli = [each["id"] for each in shop.post("parcels", order).json()["parcels"]]
    while colli:
        again = shop.post("parcels", order).json()["parcels"]
        assert [each["id"] for each in again] == colli
        assert [each["external_reference"] for each in again] == ["M", None, None][: len(colli)]
        assert shop.post(f"parcels/{colli.pop(0)}/cancel", {}).status_code == 200
    assert not Parcel.objects.exists()


@pytest.mark.parametrize("order", [{}, {"external_reference": "O"}])
def test_a_collo_s_own_reference_goes_to_no_other(shop: Shop, order: dict[str, str]) -> None:
    made = shop.post("parcels", {"parcels": [body(quantity=3, **order)]}).json()["parcels"]
    own = {"id": made[1]["id"], "external_reference": "box-2"}
    assert shop.put("parcels", {"parcel": own}).status_code == 200
    assert shop.post(f"parcels/{made[1]['id']}/cancel", {}).status_code == 200
    assert not Parcel.objects.filter(external_reference="box-2").exists()


def test_a_parcel_that_was_never_announced_is_deleted(shop: Shop) -> None:
    parcel = ParcelFactory.create(account=shop.account, status=Status.NO_LABEL)
    assert cancel(shop, parcel) == (200, "cancelled")
    assert shop.get(f"parcels/{parcel.pk}").status_code == 404
    assert shop.post(f"parcels/{parcel.pk}/cancel", None).status_code == 404


def test_an_announcement_nobody_has_claimed_is_withdrawn(shop: Shop) -> None:
    announcement = AnnouncementFactory.create(parcel__account=shop.account)
    assert cancel(shop, announcement.parcel) == (200, "cancelled")
    announcement.refresh_from_db()
    assert announcement.state == State.CANCELLED
    assert status_of(announcement.parcel) == Status.CANCELLED
    assert claim([announcement.pk]) == []
    assert events() == [2000]


def test_whoever_waited_for_a_withdrawn_parcel_is_answered(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    announcement = AnnouncementFactory.create(parcel__account=shop.account)
    question = Question([announcement.parcel_id], "http://x", "/api/v2/parcels")
    hold = open_hold(
        Asked(shop.account, question, until=monotonic() + 60), question, [announcement]
    )
    told: dict[str, Any] = {}
    monkeypatch.setattr("offload.release_many", lambda answers: bool(told.update(answers)) or True)
    with django_capture_on_commit_callbacks(execute=True):
        cancel(shop, announcement.parcel)
    assert b'"id":2000' in told[hold.pk].content
    assert Hold.objects.get().released_at


def test_cancelling_loses_to_a_claim_and_the_label_is_voided_afterwards(
    shop: Shop, carrier_says: Answers, no_broker: Sent, django_capture_on_commit_callbacks: Any
) -> None:
    announcement = AnnouncementFactory.create(parcel__account=shop.account)
    [job] = prepare([announcement.pk])
    assert cancel(shop, announcement.parcel) == (202, "queued")
    assert status_of(announcement.parcel) == Status.CANCELLATION_REQUESTED
    with django_capture_on_commit_callbacks(execute=True):
        finish([Result(job, Announced("c-1", "3S1", ()), 0.1)])
    assert status_of(announcement.parcel) == Status.CANCELLATION_REQUESTED
    assert no_broker == [("void", announcement.pk, "postnl")]
    carrier_says(Voided())
    void.void(announcement.pk)
    assert status_of(announcement.parcel) == Status.CANCELLED
    assert Announcement.objects.get().state == State.VOIDED


def test_a_refused_announcement_of_a_cancelled_parcel_ends_cancelled(shop: Shop) -> None:
    announcement = AnnouncementFactory.create(parcel__account=shop.account)
    [job] = prepare([announcement.pk])
    cancel(shop, announcement.parcel)
    finish([Result(job, Refused("ADDRESS_INVALID", "no"), 0.1)])
    assert status_of(announcement.parcel) == Status.CANCELLED
    assert events() == [1999, 2000]


def test_what_is_pending_again_is_not_bought_for_a_cancelled_parcel(
    shop: Shop, carrier_says: Answers
) -> None:
    announcement = AnnouncementFactory.create(parcel__account=shop.account)
    assert prepare([announcement.pk])
    cancel(shop, announcement.parcel)
    Announcement.objects.update(state=State.PENDING, lease_until=None, sent_at=None)
    calls = carrier_says()
    announce(announcement.pk)
    assert calls == []
    assert status_of(announcement.parcel) == Status.CANCELLED
    assert Announcement.objects.get().state == State.CANCELLED


@pytest.mark.parametrize("claims", [0, MAX_CLAIMS])
def test_a_cancelled_one_that_can_t_be_prepared_comes_to_nobody(shop: Shop, claims: int) -> None:
    """Nothing was sent: it ends as cancelled, not under review."""
    announcement = AnnouncementFactory.create(
        parcel__account=shop.account,
        parcel__from_address=["no object"],
        parcel__status=Status.CANCELLATION_REQUESTED,
        claims=claims,
    )
    assert prepare([announcement.pk]) == []
    assert Announcement.objects.get().state == State.CANCELLED
    assert status_of(announcement.parcel) == Status.CANCELLED


def test_a_bought_label_is_voided_by_a_worker(
    shop: Shop,
    bought: Announcement,
    carrier_says: Answers,
    no_broker: Sent,
    django_capture_on_commit_callbacks: Any,
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        assert cancel(shop, bought.parcel) == (202, "queued")
    assert no_broker == [("void", bought.pk, "postnl")]
    calls = carrier_says(Voided())
    void.void(bought.pk)
    void.void(bought.pk)
    assert len(calls) == 1
    assert status_of(bought.parcel) == Status.CANCELLED
    assert events() == [1999, 2001, 2000]
    assert [event.status for event in TrackingEvent.objects.order_by("id")] == [1999, 2001, 2000]
    assert Attempt.objects.get().outcome == "voided"
    # Else its receiver is never forgotten.
    assert Parcel.objects.get().date_cancel_requested is None
    shown = shop.get(f"parcels/{bought.parcel_id}").json()["parcel"]
    assert (shown["status"]["id"], shown["label"], shown["documents"]) == (2000, {}, [])
    assert shop.get(f"labels/label_printer/{bought.parcel_id}").status_code == 404


def test_a_carrier_that_refuses_leaves_the_parcel_at_94(
    shop: Shop, bought: Announcement, carrier_says: Answers
) -> None:
    cancel(shop, bought.parcel)
    own = Announced("c-1", bought.parcel.tracking_number, ())
    carrier_says(Refused("NOT_VOIDABLE", "on its way"), Found((own,)))
    void.void(bought.pk)
    shown = shop.get(f"parcels/{bought.parcel_id}?errors=verbose-carrier").json()["parcel"]
    assert shown["status"]["id"] == 94
    assert shown["errors"] == {"non_field_errors": ["PostNL service error: on its way"]}
    assert shown["label"] != {}
    assert cancel(shop, bought.parcel) == (202, "queued")


def test_a_refused_label_is_known_by_its_id(
    shop: Shop, bought: Announcement, carrier_says: Answers
) -> None:
    """A carrier may spell its tracking number in another way when it lists it."""
    cancel(shop, bought.parcel)
    Announcement.objects.update(carrier_id="c-1")
    listed = Announced("c-1", "3S-SPELLED-OTHERWISE", ())
    carrier_says(Refused("NOT_VOIDABLE", "on its way"), Found((listed,)))
    void.void(bought.pk)
    assert status_of(bought.parcel) == Status.CANCELLATION_FAILED


@pytest.mark.parametrize("result", [NotSent("unreachable"), Unknown("timeout")])
def test_without_an_answer_the_carrier_is_asked_again(
    shop: Shop, bought: Announcement, carrier_says: Answers, result: VoidResult
) -> None:
    cancel(shop, bought.parcel)
    carrier_says(result)
    void.void(bought.pk)
    assert status_of(bought.parcel) == Status.SUBMITTING_CANCELLATION
    assert void.due_voids() == []
    Announcement.objects.update(wake_at=timezone.now() - timedelta(seconds=1))
    assert void.due_voids() == [(bought.pk, "postnl")]
    assert void.due_voids() == []
    carrier_says(Voided())
    void.void(bought.pk)
    assert status_of(bought.parcel) == Status.CANCELLED
    assert events() == [1999, 2001, 2000]


def test_a_lost_answer_is_cleared_up_by_a_lookup(
    shop: Shop, bought: Announcement, carrier_says: Answers
) -> None:
    cancel(shop, bought.parcel)
    carrier_says(Unknown("reset"))
    void.void(bought.pk)
    carrier_says(Refused("NOT_VOIDABLE", "already voided or on its way"), Absent())
    void.void(bought.pk)
    assert status_of(bought.parcel) == Status.CANCELLED


@pytest.mark.parametrize("behind", [0, 60])
def test_a_young_label_that_isnt_listed_is_not_taken_for_void(
    shop: Shop,
    bought: Announcement,
    carrier_says: Answers,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    behind: int,
) -> None:
    """Its age is by the database's clock: this host is a minute ahead of it, or not."""
    settings.TIME_SCALE = 1.0
    Announcement.objects.update(date_ended=DatabaseNow())
    cancel(shop, bought.parcel)
    ahead = timezone.now() + timedelta(seconds=behind)
    monkeypatch.setattr(timezone, "now", lambda: ahead)
    carrier_says(Refused("NOT_FOUND", "unknown label"), Absent())
    void.void(bought.pk)
    assert status_of(bought.parcel) == Status.SUBMITTING_CANCELLATION
    Announcement.objects.update(date_ended=DatabaseNow(-61), lease_until=None)
    carrier_says(Refused("NOT_FOUND", "unknown label"), Absent())
    void.void(bought.pk)
    assert status_of(bought.parcel) == Status.CANCELLED


def test_only_a_label_whose_parcel_is_cancelled_is_voided(
    bought: Announcement, reviewed: Announcement, carrier_says: Answers
) -> None:
    calls = carrier_says(Voided())
    for row in (bought, reviewed):
        before = Announcement.objects.values().get(pk=row.pk)
        void.void(row.pk)
        assert Announcement.objects.values().get(pk=row.pk) == before
    assert calls == []


def test_a_void_whose_claim_is_lost_records_nothing(shop: Shop, bought: Announcement) -> None:
    cancel(shop, bought.parcel)
    late = void._claim(bought.pk)
    Announcement.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert late
    assert void._claim(bought.pk)
    void._record(late, Refused("LATE", "late"), 1.0)
    assert status_of(bought.parcel) == Status.SUBMITTING_CANCELLATION
    assert void._claim(bought.pk) is None


@pytest.mark.parametrize("code", ["lantern", "colibri"])
def test_a_void_that_was_answered_to_a_lost_claim_is_one(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """The second try is refused because the first one, whose worker was paused, has voided it."""
    parcel = LabelledParcelFactory.create(account=shop.account, carrier=code)
    row = AnnouncementFactory.create(parcel=parcel, carrier=code, state=State.ANNOUNCED)
    cancel(shop, parcel)
    paused = void._claim(row.pk)
    assert paused
    Announcement.objects.update(lease_until=timezone.now() - timedelta(seconds=1))

    def perform(steps: Any, *_: Any, **__: Any) -> Refused:
        void._record(paused, Voided(), 1.0)
        return Refused("NOT_VOIDABLE", "voided already")

    monkeypatch.setattr("carriers.transport.perform", perform)
    void.void(row.pk)
    assert status_of(parcel) == Status.CANCELLED


def test_a_refusal_without_room_to_check_it_is_a_try(
    shop: Shop, bought: Announcement, carrier_says: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the void would be sent again each second, and written down nowhere."""
    cancel(shop, bought.parcel)
    carrier_says(Refused("NOT_VOIDABLE", "on its way"))
    enters: list[dict[int, NotSent]] = [{}, {bought.pk: NotSent("bulkhead_full", retry_after=1.0)}]
    monkeypatch.setattr(protect, "enter", lambda _: enters.pop(0))
    void.void(bought.pk)
    attempt = Attempt.objects.get()
    assert (attempt.kind, attempt.outcome, attempt.detail) == ("void", "unknown", "bulkhead_full")
    row = Announcement.objects.get()
    assert row.claims == 1
    assert row.wake_at > timezone.now() + timedelta(seconds=30)


def test_a_worker_that_died_is_followed_by_another(
    shop: Shop, bought: Announcement, carrier_says: Answers
) -> None:
    cancel(shop, bought.parcel)
    job = void._claim(bought.pk)
    assert job is not None
    assert void._claim(bought.pk) is None
    Announcement.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    carrier_says(Voided())
    void.void(bought.pk)
    assert status_of(bought.parcel) == Status.CANCELLED
    void._record(job, Refused("LATE", "late"), 1.0)
    assert status_of(bought.parcel) == Status.CANCELLED


def test_a_carrier_without_room_is_asked_later(
    shop: Shop, bought: Announcement, carrier_says: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancel(shop, bought.parcel)
    calls = carrier_says(Voided())
    with monkeypatch.context() as full:
        turned_away = NotSent("bulkhead_full", retry_after=3.0)
        full.setattr(protect, "enter", lambda jobs: {jobs[0].announcement.pk: turned_away})
        void.void(bought.pk)
    assert calls == []
    assert Announcement.objects.get().claims == 0  # else a refusal is taken for a lost answer
    assert void.due_voids() == []
    Announcement.objects.update(wake_at=timezone.now() - timedelta(seconds=1))
    assert void.due_voids() == [(bought.pk, "postnl")]
    void.void(bought.pk)
    assert status_of(bought.parcel) == Status.CANCELLED


def test_an_unanswered_cancellation_ends(shop: Shop, bought: Announcement, settings: Any) -> None:
    cancel(shop, bought.parcel)
    assert void.give_up() == 0
    settings.ANNOUNCEMENT_MAX_AGE = 0
    assert void.give_up() == 1
    assert status_of(bought.parcel) == Status.CANCELLATION_FAILED


@pytest.mark.parametrize(
    ("answers", "claims", "days", "status"),
    [
        (True, 2, 6, Status.CANCELLED),
        (False, void.TRIES - 1, 6, Status.SUBMITTING_CANCELLATION),
        (False, void.TRIES, 2, Status.CANCELLATION_FAILED),
        (False, 1, void.LONGEST, Status.CANCELLATION_FAILED),
    ],
)
def test_a_day_without_a_sweeper_is_no_day_of_trying(
    shop: Shop,
    bought: Announcement,
    carrier_says: Answers,
    answers: bool,
    claims: int,
    days: int,
    status: Status,
) -> None:
    """The first answer was lost: given up then, a label that is void would still be printed."""
    cancel(shop, bought.parcel)
    Parcel.objects.update(date_cancel_requested=timezone.now() - timedelta(days=2))
    carrier_says(Unknown("reset"))
    void.void(bought.pk)
    assert void.give_up() == 0
    carrier_says(Refused("NOT_VOIDABLE", "already voided or on its way"), Absent())
    if answers:
        void.void(bought.pk)
    an_hour_passes()
    Announcement.objects.update(claims=claims)
    Parcel.objects.update(date_cancel_requested=timezone.now() - timedelta(days=days))
    assert void.give_up() == (status == Status.CANCELLATION_FAILED)
    assert status_of(bought.parcel) == status


def an_hour_passes() -> None:
    """Since the cancellation's steps."""
    TrackingEvent.objects.filter(seq=None).update(at=F("at") - timedelta(hours=1, minutes=1))


def test_a_first_try_under_way_is_not_given_up(shop: Shop, bought: Announcement) -> None:
    """In the round that has sent it; or its process died in the call, and left no attempt."""
    cancel(shop, bought.parcel)
    Parcel.objects.update(date_cancel_requested=timezone.now() - timedelta(days=2))
    job = void._claim(bought.pk)
    assert job
    assert void.give_up() == 0
    void._record(job, Unknown("reset"), 1.0)
    assert status_of(bought.parcel) == Status.SUBMITTING_CANCELLATION


def test_an_earlier_cancellation_is_no_try_of_this_one(
    shop: Shop, bought: Announcement, carrier_says: Answers
) -> None:
    found = Found((Announced("c-1", bought.parcel.tracking_number, ()),))
    Announcement.objects.update(date_ended=timezone.now() - timedelta(days=1))
    cancel(shop, bought.parcel)
    carrier_says(Refused("NOT_VOIDABLE", "not yet"), found)
    void.void(bought.pk)
    assert status_of(bought.parcel) == Status.CANCELLATION_FAILED
    Attempt.objects.update(date_created=timezone.now() - timedelta(days=3))
    an_hour_passes()
    cancel(shop, bought.parcel)
    Parcel.objects.update(date_cancel_requested=timezone.now() - timedelta(days=2))
    carrier_says(Unknown("reset"))
    void.void(bought.pk)
    assert void.give_up() == 0


def test_giving_up_and_a_claim_take_turns(
    shop: Shop, bought: Announcement, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancel(shop, bought.parcel)
    Parcel.objects.update(date_cancel_requested=timezone.now() - timedelta(days=2))
    read = Parcel.objects.get(pk=bought.parcel_id)
    given_up: list[int] = []
    with monkeypatch.context() as claiming:

        def meanwhile(row: Any) -> Any:
            job = job_for(row)
            given_up.append(void._fail(read, "given up"))  # read before the claim
            return job

        claiming.setattr(void, "job_for", meanwhile)
        assert void._claim(bought.pk) is None
    assert given_up == [1]
    fail = void._fail
    monkeypatch.setattr(void, "_fail", lambda *given: void._claim(bought.pk) and fail(*given))
    assert void.give_up() == 0


@pytest.mark.parametrize("meanwhile", [None, Status.PICKED_UP_BY_DRIVER])
def test_a_void_that_is_answered_after_the_cancellation_failed_counts(
    shop: Shop, bought: Announcement, settings: Any, meanwhile: Status | None
) -> None:
    cancel(shop, bought.parcel)
    late = void._claim(bought.pk)
    assert late
    if meanwhile:
        hear(bought.parcel, 1, meanwhile, hours_ago=-1)
    an_hour_passes()
    settings.ANNOUNCEMENT_MAX_AGE = 0
    assert void.give_up() == 1
    void._record(late, Voided(), 1.0)
    assert status_of(bought.parcel) == Status.CANCELLED
    assert events() == [1999, 2001, 94, *([meanwhile] if meanwhile else []), 2000]


def hear(parcel: Parcel, seq: int, status: Status, *, hours_ago: int) -> None:
    """Read an event from the carriers' feed."""
    at = timezone.now() - timedelta(hours=hours_ago)
    step = Step(seq, at, parcel.carrier, parcel.tracking_number, status)
    FeedCursor.objects.update_or_create(name=tracking_feed.FEED, defaults={"seq": 0})
    assert tracking_feed.store(since=0, page=Page((step,), seq))


@pytest.mark.parametrize("end", ["refused", "unanswered"])
@pytest.mark.parametrize(
    ("meanwhile", "hours_ago", "after"),
    [
        (Status.DELIVERED, 1, [94, 11]),  # before the request, and known after it
        (Status.DELIVERED, -1, [94, 11]),
        (Status.PICKED_UP_BY_DRIVER, 3, [94]),  # older than what was known before
        (None, 0, [94]),
    ],
)
def test_what_happened_while_a_cancellation_failed_is_told_after_it(
    shop: Shop,
    bought: Announcement,
    settings: Any,
    end: str,
    meanwhile: Status | None,
    hours_ago: int,
    after: list[int],
) -> None:
    hear(bought.parcel, 1, Status.PARCEL_EN_ROUTE, hours_ago=2)
    cancel(shop, bought.parcel)
    if meanwhile:
        hear(bought.parcel, 2, meanwhile, hours_ago=hours_ago)
    job = void._claim(bought.pk)
    assert job
    if end == "refused":
        void._record(job, Refused("NOT_VOIDABLE", "on its way"), 1.0)
    else:
        an_hour_passes()
        settings.ANNOUNCEMENT_MAX_AGE = 0
        assert void.give_up() == 1
    assert events() == [91, 1999, 2001, *after]
    assert status_of(bought.parcel) == after[-1]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite's writers take turns")
@pytest.mark.django_db(transaction=True)
def test_an_event_and_the_end_of_a_cancellation_take_turns(
    shop: Shop, bought: Announcement, settings: Any
) -> None:
    cancel(shop, bought.parcel)
    settings.ANNOUNCEMENT_MAX_AGE = 0

    def give_up() -> None:
        void.give_up()
        connection.close()

    ending = threading.Thread(target=give_up)

    def meanwhile(execute: Any, sql: str, *given: Any) -> Any:
        done = execute(sql, *given)
        if sql.startswith("UPDATE parcels_parcel") and ending.ident is None:
            ending.start()
            ending.join(0.5)  # or it waits for the parcel
        return done

    with connection.execute_wrapper(meanwhile):
        hear(bought.parcel, 1, Status.DELIVERED, hours_ago=0)
    ending.join()
    assert status_of(bought.parcel) == Status.DELIVERED


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (Status.ANNOUNCEMENT_FAILED, (410, "deleted")),
        (Status.CANCELLED, (400, "failed")),
        (Status.CANCELLED_UPSTREAM, (400, "failed")),
        (Status.DELIVERED, (400, "failed")),
        (Status.COLLECTED_BY_CUSTOMER, (400, "failed")),
        (Status.CANCELLATION_REQUESTED, (202, "queued")),
        (Status.SUBMITTING_CANCELLATION, (202, "queued")),
        (Status.PARCEL_EN_ROUTE, (202, "queued")),
        (4711, (202, "queued")),
    ],
)
def test_answers_by_status(shop: Shop, status: int, answer: tuple[int, str]) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account, status=status)
    assert cancel(shop, parcel) == answer


@pytest.mark.parametrize(("days", "answer"), [(41, (202, "queued")), (43, (400, "failed"))])
def test_after_42_days_it_is_too_late(shop: Shop, days: int, answer: tuple[int, str]) -> None:
    announced = timezone.now() - timedelta(days=days)
    parcel = LabelledParcelFactory.create(account=shop.account, date_announced=announced)
    assert cancel(shop, parcel) == answer


def test_a_parcel_that_is_delivered_meanwhile_stays_delivered(
    shop: Shop, bought: Announcement, monkeypatch: pytest.MonkeyPatch
) -> None:
    def age_after_delivery(_: Parcel) -> timedelta:
        Parcel.objects.update(status=Status.DELIVERED)
        return timedelta(0)

    monkeypatch.setattr("parcels.services.cancel._age", age_after_delivery)
    assert cancel(shop, bought.parcel) == (400, "failed")
    assert status_of(bought.parcel) == Status.DELIVERED


@pytest.mark.parametrize("status", [Status.NO_LABEL, Status.BEING_ANNOUNCED, Status.READY_TO_SEND])
def test_another_account_cancels_nothing(other_shop: Shop, shop: Shop, status: Status) -> None:
    parcel = ParcelFactory.create(account=shop.account, status=status)
    assert other_shop.post(f"parcels/{parcel.pk}/cancel", None).status_code == 404
    assert status_of(parcel) == status


@pytest.mark.parametrize("text", [b"", b"{", b"null", b"\xff"])
def test_a_body_is_not_read(shop: Shop, text: bytes) -> None:
    parcel = ParcelFactory.create(account=shop.account, status=Status.NO_LABEL)
    assert shop.post(f"parcels/{parcel.pk}/cancel/", text).status_code == 200


def test_the_sweeper_finds_cancellations_without_walking_through_all() -> None:
    # SQLite's words; PostgreSQL walks through tables that are as small as here.
    assert "SCAN parcels_announcement" not in void.due_announcements().explain()


def test_a_cancellation_by_a_host_that_is_ahead_is_due_at_once(
    shop: Shop, bought: Announcement
) -> None:
    cancel(shop, bought.parcel)
    Announcement.objects.update(wake_at=DatabaseNow(-1))
    Parcel.objects.update(date_cancel_requested=timezone.now() + timedelta(seconds=60))
    assert void.due_announcements().exists()


@pytest.fixture
def reviewed(shop: Shop) -> Announcement:
    """Return an announcement under review whose cancellation was asked for."""
    row = AnnouncementFactory.create(parcel__account=shop.account, state=State.NEEDS_REVIEW)
    assert cancel(shop, row.parcel) == (202, "queued")
    return row


def test_adopting_goes_on_with_a_cancellation_that_was_promised(
    reviewed: Announcement, no_broker: Sent, django_capture_on_commit_callbacks: Any
) -> None:
    """Finding 16."""
    with django_capture_on_commit_callbacks(execute=True):
        review.adopt(reviewed, review.Label("3S1", "c-1"), by="operator")
    assert status_of(reviewed.parcel) == Status.CANCELLATION_REQUESTED
    assert Parcel.objects.get().tracking_number == "3S1"
    assert no_broker == [("void", reviewed.pk, "postnl")]
    assert events() == [1999]


def test_a_review_that_is_shown_as_failed_is_cancelled_as_any_other(shop: Shop) -> None:
    row = AnnouncementFactory.create(
        parcel__account=shop.account,
        parcel__status=Status.ANNOUNCEMENT_FAILED,
        state=State.NEEDS_REVIEW,
    )
    assert cancel(shop, row.parcel) == (202, "queued")
    review.adopt(row, review.Label("3S1", "c-1"), by="operator")
    assert status_of(row.parcel) == Status.CANCELLATION_REQUESTED


def test_a_review_that_ends_meanwhile_leaves_nothing_to_cancel(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = AnnouncementFactory.create(
        parcel__account=shop.account,
        parcel__status=Status.ANNOUNCEMENT_FAILED,
        state=State.NEEDS_REVIEW,
    )

    def decided(_: Parcel) -> timedelta:
        review.give_up(row, by="operator")
        return timedelta()

    monkeypatch.setattr(cancelling, "_age", decided)  # which is asked in between
    assert cancel(shop, row.parcel) == (410, "deleted")
    assert status_of(row.parcel) == Status.ANNOUNCEMENT_FAILED


def test_giving_up_ends_a_cancellation_that_was_promised(reviewed: Announcement) -> None:
    review.give_up(reviewed, by="operator")
    assert status_of(reviewed.parcel) == Status.CANCELLED
    assert events() == [1999, 2000]


def test_giving_up_after_the_cancellation_failed_ends_the_announcement(
    reviewed: Announcement, settings: Any
) -> None:
    settings.ANNOUNCEMENT_MAX_AGE = 0
    assert void.give_up() == 1
    review.give_up(reviewed, by="operator")
    assert status_of(reviewed.parcel) == Status.ANNOUNCEMENT_FAILED
    assert events() == [1999, 94, 1002]


def test_adopting_after_the_cancellation_failed_says_what_it_sends(
    reviewed: Announcement, settings: Any
) -> None:
    """Finding 16: status, number and event agree."""
    settings.ANNOUNCEMENT_MAX_AGE = 0
    assert void.give_up() == 1
    review.adopt(reviewed, review.Label("3S1", "c-1"), by="operator")
    parcel = Parcel.objects.get()
    assert (parcel.status, parcel.tracking_number) == (Status.READY_TO_SEND, "3S1")
    assert events() == [1999, 94, 1000]


def test_a_refused_void_is_looked_up(
    shop: Shop, bought: Announcement, carrier_says: Answers
) -> None:
    """Finding 3: voided already, by somebody whose answer nobody recorded."""
    cancel(shop, bought.parcel)
    carrier_says(Refused("NOT_VOIDABLE", "already voided or on its way"), Absent())
    void.void(bought.pk)
    assert status_of(bought.parcel) == Status.CANCELLED


def test_a_void_whose_look_up_fails_is_asked_again(
    shop: Shop, bought: Announcement, carrier_says: Answers
) -> None:
    cancel(shop, bought.parcel)
    carrier_says(Refused("NOT_VOIDABLE", "?"), Unknown("timeout"))
    void.void(bought.pk)
    assert status_of(bought.parcel) == Status.SUBMITTING_CANCELLATION


@pytest.mark.parametrize(
    ("first", "status"),
    [
        (Unknown("reset"), Status.CANCELLED),
        (NotSent("reset"), Status.CANCELLED),
        (NotSent("unreachable"), Status.CANCELLATION_FAILED),
        (NotSent("tls"), Status.CANCELLATION_FAILED),
    ],
)
def test_a_refused_void_after_a_try_without_answer_at_a_carrier_that_can_t_be_asked(
    shop: Shop, carrier_says: Answers, first: VoidResult, status: Status
) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account, carrier="lantern")
    row = AnnouncementFactory.create(parcel=parcel, state=State.ANNOUNCED, carrier_id="c-1")
    cancel(shop, parcel)
    carrier_says(first)
    void.void(row.pk)
    carrier_says(Refused("NOT_VOIDABLE", "already voided or on its way"))
    void.void(row.pk)
    assert status_of(parcel) == status


def test_a_refused_void_after_a_worker_died_at_a_carrier_that_can_t_be_asked(
    shop: Shop, carrier_says: Answers
) -> None:
    """The fault suite's F22: a process that is killed during the call leaves no attempt."""
    parcel = LabelledParcelFactory.create(account=shop.account, carrier="colibri")
    row = AnnouncementFactory.create(parcel=parcel, state=State.ANNOUNCED, carrier_id="c-1")
    cancel(shop, parcel)
    assert void._claim(row.pk)
    Announcement.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    carrier_says(Refused("NOT_VOIDABLE", "the carrier keeps this label"))
    void.void(row.pk)
    assert status_of(parcel) == Status.CANCELLED


def test_a_refused_void_is_believed_where_no_answer_was_lost(
    shop: Shop, carrier_says: Answers
) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account, carrier="colibri")
    row = AnnouncementFactory.create(parcel=parcel, state=State.ANNOUNCED, carrier_id="c-1")
    for _ in range(2):
        cancel(shop, parcel)
        carrier_says(Refused("NOT_VOIDABLE", "the carrier keeps this label"))
        void.void(row.pk)
        assert status_of(parcel) == Status.CANCELLATION_FAILED


@pytest.mark.parametrize("ended", [30, 100])
def test_a_refused_void_is_believed_where_tries_are_older_than_the_history(
    shop: Shop, carrier_says: Answers, settings: Any, ended: int
) -> None:
    """A spare label is voided until a person settles it: its first tries' attempts are dropped."""
    settings.HISTORY_KEEP = 60 * 24 * 3600
    row = AnnouncementFactory.create(
        state=State.FAILED, carrier="colibri", date_ended=timezone.now() - timedelta(days=ended)
    )
    spare = SpareLabel.objects.create(
        announcement=row, carrier_id="c-9", tracking_number="3S9", source="answer", tries=1
    )
    carrier_says(Refused("NOT_VOIDABLE", "the carrier keeps this label"))
    spares.settle_spare(spare.pk)
    spare.refresh_from_db()
    assert (spare.state, spare.tries) == (
        SpareState.GONE if ended == 30 else SpareState.OPEN,  # at first: its process has died
        2,
    )


@pytest.mark.parametrize("code", ["postnl", "colibri"])
def test_a_refused_void_is_believed_where_the_credentials_were_changed(
    shop: Shop, carrier_says: Answers, code: str
) -> None:
    """The new ones list nothing, and are refused whatever became of the first try."""
    parcel = LabelledParcelFactory.create(account=shop.account, carrier=code)
    row = AnnouncementFactory.create(
        parcel=parcel, state=State.ANNOUNCED, carrier_id="c-1", credentials_hash="others"
    )
    cancel(shop, parcel)
    for answers in ([Unknown("reset")], [Refused("NOT_FOUND", "unknown label"), Absent()]):
        carrier_says(*answers)
        void.void(row.pk)
    assert status_of(parcel) == Status.CANCELLATION_FAILED


def test_a_lost_answer_about_another_label_makes_no_refusal_a_void(
    shop: Shop, carrier_says: Answers
) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account, carrier="colibri")
    row = AnnouncementFactory.create(parcel=parcel, state=State.ANNOUNCED, carrier_id="c-1")
    Attempt.objects.create(
        announcement=row, kind="void", fence=1, outcome="unknown", tracking_number="a spare's"
    )
    cancel(shop, parcel)
    carrier_says(Refused("NOT_VOIDABLE", "the carrier keeps this label"))
    void.void(row.pk)
    assert status_of(parcel) == Status.CANCELLATION_FAILED


@pytest.mark.parametrize("matched", [True, False])
def test_a_refused_void_of_what_is_on_its_way_is_believed(
    shop: Shop, carrier_says: Answers, matched: bool
) -> None:
    """The fault suite's F22 in full dose: the first try's answer was lost, and it had failed."""
    parcel = LabelledParcelFactory.create(account=shop.account, carrier="colibri")
    row = AnnouncementFactory.create(parcel=parcel, state=State.ANNOUNCED, carrier_id="c-1")
    cancel(shop, parcel)
    carrier_says(Unknown("reset"))
    void.void(row.pk)
    TrackingEvent.objects.create(
        parcel=parcel if matched else None, carrier="colibri",
        tracking_number=parcel.tracking_number,
        status=Status.PICKED_UP_BY_DRIVER, at=timezone.now(), seq=1,
    )  # fmt: skip
    carrier_says(Refused("NOT_VOIDABLE", "the carrier keeps this label"))
    void.void(row.pk)
    assert events() == [1999, 2001, 94, 22][: 4 if matched else 3]
