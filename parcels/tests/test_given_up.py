"""Cancellations that no carrier answers: when they are given up, and what comes in between."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone

from carriers.outcomes import Absent, Announced, Found, Refused, Unknown, Voided
from parcels.models import Announcement, Attempt, Parcel, TrackingEvent
from parcels.services import void
from parcels.services.call_and_wait import job_for
from parcels.statuses import Status
from parcels.tests.cancellations import Answers, cancel, events, hear, status_of
from parcels.tests.requests import Shop

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("listener")]


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
    Announcement.objects.update(claims=void.TRIES)
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
