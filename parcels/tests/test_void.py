"""Voiding a bought label: asked by a worker, again after a lost answer, believed or looked up."""

from collections.abc import Callable
from datetime import timedelta
from time import monotonic
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from carriers.call import Call
from carriers.errors import CarrierTimeout
from carriers.outcomes import (
    Absent,
    Announced,
    Found,
    NotSent,
    Refused,
    Unknown,
    Voided,
    VoidResult,
)
from carriers.registry import CARRIERS
from carriers.tokens import TokenCache
from parcels.models import (
    Announcement,
    Attempt,
    Parcel,
    SpareLabel,
    SpareState,
    State,
    TrackingEvent,
)
from parcels.services import protect, restored, spares, void
from parcels.services.clock import DatabaseNow
from parcels.statuses import Status
from parcels.tests.cancellations import Answers, Sent, cancel, events, status_of
from parcels.tests.factories import AnnouncementFactory, LabelledParcelFactory
from parcels.tests.requests import Shop

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("listener")]


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


def test_a_second_message_waits_until_a_void_without_answer_has_settled(
    shop: Shop, carrier_says: Answers, settings: Any
) -> None:
    """The sweeper sends one to a busy worker, and the first is not answered."""
    settings.TIME_SCALE = 1.0
    parcel = LabelledParcelFactory.create(account=shop.account, carrier="tortoise")
    row = AnnouncementFactory.create(parcel=parcel, state=State.ANNOUNCED)
    cancel(shop, parcel)
    carrier_says(Unknown("timeout"))
    void.void(row.pk)
    listed = Found((Announced("c-1", parcel.tracking_number, ()),))
    carrier_says(Refused("NOT_VOIDABLE", "already voided"), listed)
    void.void(row.pk)
    assert status_of(parcel) == Status.SUBMITTING_CANCELLATION
    carrier_says(Refused("NOT_VOIDABLE", "already voided"), listed)
    Attempt.objects.update(date_created=timezone.now() - timedelta(seconds=91))
    void.void(row.pk)
    assert status_of(parcel) == Status.CANCELLATION_FAILED


def test_the_void_of_a_process_that_died_has_settled_before_it_is_repeated(
    shop: Shop, settings: Any
) -> None:
    settings.TIME_SCALE = 1.0
    parcel = LabelledParcelFactory.create(account=shop.account, carrier="tortoise")
    row = AnnouncementFactory.create(parcel=parcel, state=State.ANNOUNCED)
    cancel(shop, parcel)
    assert void._claim(row.pk)
    row.refresh_from_db()
    after = timedelta(seconds=settings.ANNOUNCEMENT_LEASE + CARRIERS["tortoise"].settling - 1)
    assert row.lease_until
    assert min(row.lease_until, row.wake_at) > timezone.now() + after


@pytest.mark.parametrize(("code", "seconds"), [("postnl", 60), ("tortoise", 90)])
def test_a_void_without_answer_has_settled_before_a_list_is_believed(
    shop: Shop, carrier_says: Answers, settings: Any, code: str, seconds: int
) -> None:
    """Else a refused repeat, while the list still has the label, would end the cancellation."""
    settings.TIME_SCALE = 1.0
    parcel = LabelledParcelFactory.create(account=shop.account, carrier=code)
    row = AnnouncementFactory.create(parcel=parcel, state=State.ANNOUNCED)
    cancel(shop, parcel)
    carrier_says(Unknown("timeout"))
    void.void(row.pk)
    row.refresh_from_db()
    left = (row.wake_at - timezone.now()).total_seconds()
    assert seconds - 5 < left < seconds + 0.01  # SQLite's clock has milliseconds, rounded up


def test_a_void_may_leave_after_a_login_of_almost_its_whole_call(
    shop: Shop, bought: Announcement, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A purchase may not: another process may have begun one meanwhile."""
    left: list[float] = []

    def perform(_: Any, __: str, deadline: float, connecting: float, until: float) -> VoidResult:
        left.append(until - monotonic() - deadline)
        return Voided()

    monkeypatch.setattr("carriers.transport.perform", perform)
    cancel(shop, bought.parcel)
    void.void(bought.pk)
    assert [each > 0 for each in left] == [True]


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
        (NotSent("reset"), Status.CANCELLATION_FAILED),
        (NotSent("unreadable"), Status.CANCELLATION_FAILED),  # the login before it
        (Unknown("server_error"), Status.CANCELLED),
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


@pytest.mark.parametrize(("logged_in", "outcome"), [(False, "not_sent"), (True, "unknown")])
def test_a_void_is_lost_once_it_was_sent(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, logged_in: bool, outcome: str
) -> None:
    tokens = TokenCache()
    monkeypatch.setattr(CARRIERS["lantern"], "tokens", tokens)
    if logged_in:
        tokens.put(settings.HOUSE_CREDENTIALS["lantern"], "t1", 600)

    def hang(steps: Any, url: str, deadline: float, *limits: Any) -> NotSent | Unknown:
        call = Call(url, monotonic() + deadline, *limits)
        call.begin(next(steps))
        call.leaving()
        return call.outcome(CarrierTimeout())

    monkeypatch.setattr("carriers.transport.perform", hang)
    parcel = LabelledParcelFactory.create(account=shop.account, carrier="lantern")
    row = AnnouncementFactory.create(parcel=parcel, state=State.ANNOUNCED, carrier_id="c-1")
    cancel(shop, parcel)
    void.void(row.pk)
    assert Attempt.objects.get().outcome == outcome


def a_worker_died(row: Announcement) -> None:
    """The fault suite's F22: a process that is killed during the call leaves no attempt."""
    assert void._claim(row.pk)
    Announcement.objects.update(lease_until=timezone.now() - timedelta(seconds=1))


def a_backup_was_restored(_: Announcement) -> None:
    """The label was voided after it; else it would be shown, and printed, as live."""
    restored.distrust_unsent()


@pytest.mark.parametrize("before", [a_worker_died, a_backup_was_restored])
def test_a_refused_void_at_a_carrier_that_can_t_be_asked_after(
    shop: Shop, carrier_says: Answers, before: Callable[[Announcement], None]
) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account, carrier="colibri")
    row = AnnouncementFactory.create(parcel=parcel, state=State.ANNOUNCED, carrier_id="c-1")
    cancel(shop, parcel)
    before(row)
    carrier_says(Refused("NOT_VOIDABLE", "the carrier keeps this label"))
    void.void(row.pk)
    assert status_of(parcel) == Status.CANCELLED


@pytest.mark.parametrize(("error", "state"), [("", SpareState.GONE), ("Refused", SpareState.OPEN)])
def test_a_refused_void_of_a_spare_label_at_a_carrier_that_can_t_be_asked_after_a_restore(
    carrier_says: Answers, error: str, state: SpareState
) -> None:
    """Unless it had been refused before: that one is live."""
    row = AnnouncementFactory.create(state=State.FAILED, carrier="colibri")
    spare = row.spares.create(tracking_number="3S9", source="answer", error=error)
    a_backup_was_restored(row)
    carrier_says(Refused("NOT_VOIDABLE", "the carrier keeps this label"))
    spares.settle_spare(spare.pk)
    assert row.spares.get().state == state


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
