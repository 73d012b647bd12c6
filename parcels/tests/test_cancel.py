"""Cancelling: what is deleted, withdrawn, asked of the carrier, refused."""

from datetime import timedelta
from time import monotonic
from typing import Any

import pytest
from django.utils import timezone

from carriers.outcomes import Announced, NotSent, Refused, Voided
from parcels.models import Announcement, Hold, Parcel, State, WebhookEvent
from parcels.representation import Question
from parcels.services import cancel as cancelling
from parcels.services import review, sweep, void
from parcels.services.announce import announce
from parcels.services.claim import MAX_CLAIMS, claim, prepare
from parcels.services.holds import Asked, open_hold
from parcels.services.job import Result
from parcels.services.record import finish
from parcels.statuses import Status
from parcels.tests.cancellations import Answers, Sent, cancel, events, status_of
from parcels.tests.factories import AnnouncementFactory, LabelledParcelFactory, ParcelFactory
from parcels.tests.requests import Shop, body

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("listener")]


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


def test_the_event_of_a_cancellation_that_ends_is_newer_than_that_of_its_request(
    shop: Shop,
) -> None:
    """The host that was asked is a minute ahead; this one read the parcel before."""
    announcement = AnnouncementFactory.create(parcel__account=shop.account)
    [job] = prepare([announcement.pk])
    cancel(shop, announcement.parcel)
    ahead = timezone.now() + timedelta(minutes=1)
    Parcel.objects.update(date_updated=ahead)
    WebhookEvent.objects.update(date_created=ahead)
    finish([Result(job, Refused("ADDRESS_INVALID", "no"), 0.1)])
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


@pytest.mark.parametrize("shown", [False, True])
def test_a_review_of_what_was_never_sent_ends_with_its_cancellation(
    shop: Shop, carrier_says: Answers, shown: bool
) -> None:
    """A day's outage: the carrier can't be asked to void what it has never heard of."""
    row = AnnouncementFactory.create(parcel__account=shop.account)
    carrier_says(NotSent("unreachable"))
    announce(row.pk)
    Announcement.objects.update(deadline_at=timezone.now())
    sweep.end_overdue()
    if shown:
        sweep.show_overdue_reviews()
    assert Announcement.objects.get().state == State.NEEDS_REVIEW
    assert cancel(shop, row.parcel) == (200, "cancelled")
    assert Announcement.objects.get().state == State.CANCELLED
    failed = [Status.ANNOUNCEMENT_FAILED] if shown else []
    assert (status_of(row.parcel), events()) == (Status.CANCELLED, [*failed, Status.CANCELLED])


def test_a_review_from_before_unknowns_were_dated_is_not_withdrawn(shop: Shop) -> None:
    row = AnnouncementFactory.create(
        parcel__account=shop.account, state=State.NEEDS_REVIEW, sent_at=timezone.now()
    )
    assert cancel(shop, row.parcel) == (202, "queued")
    assert Announcement.objects.get().state == State.NEEDS_REVIEW


def test_a_review_that_is_shown_as_failed_is_cancelled_as_any_other(shop: Shop) -> None:
    row = AnnouncementFactory.create(
        parcel__account=shop.account,
        parcel__status=Status.ANNOUNCEMENT_FAILED,
        state=State.NEEDS_REVIEW,
        unknown_since=timezone.now(),
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
        unknown_since=timezone.now(),
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
