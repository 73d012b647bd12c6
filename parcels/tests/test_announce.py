"""What announcing costs the database in the good case."""

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.db import DataError, OperationalError, connection, transaction
from django.db.models import F
from django.db.models.sql.compiler import SQLCompiler
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from carriers import transport, transport_async
from carriers.breaker_rules import Admission
from carriers.call import Call
from carriers.errors import SendForbidden
from carriers.guards import CarrierGuards
from carriers.outcomes import Announced, Document, NotSent, Unknown
from deploy.tests.waiting import until
from parcels import metrics
from parcels.models import (
    Announcement,
    Attempt,
    Hold,
    Parcel,
    SpareLabel,
    State,
    TrackingEvent,
    WebhookEndpoint,
    WebhookEvent,
)
from parcels.models import Document as DocumentRow
from parcels.representation import Question, final_answer
from parcels.selectors import in_order
from parcels.services import carrier_guards, protect, reconcile
from parcels.services.announce import announce
from parcels.services.announcer import buy_async
from parcels.services.call_and_wait import buy
from parcels.services.cancel import CANCELLED, cancel
from parcels.services.claim import claim, guard, prepare
from parcels.services.ending import Ending, end
from parcels.services.holds import Asked, open_hold, release
from parcels.services.job import Result, jobs_for
from parcels.services.next_state import hand_back, move_on, put_under_review
from parcels.services.record import finish, record
from parcels.services.rows import change_rows
from parcels.statuses import Status
from parcels.tests.factories import PDF, AnnouncementFactory, ParcelFactory

pytestmark = pytest.mark.django_db


def label(number: int) -> Announced:
    return Announced(f"c-{number}", f"3S{number}", (Document("label", "pdf", PDF),))


def awaited(count: int) -> list[Announcement]:
    """Return announcements of one account, each with a client that is held for it."""
    rows: list[Announcement] = []
    for _ in range(count):
        same = {"parcel__account": rows[0].account} if rows else {}
        row = AnnouncementFactory.create(**same)
        question = Question([row.parcel_id], "http://x", "/api/v2/parcels")
        open_hold(Asked(row.account, question, until=monotonic() + 60), question, [row])
        rows.append(row)
    return rows


def announce_all(rows: Sequence[Announcement], capture: Any) -> int:
    """Announce them as one group; return the number of statements."""
    with CaptureQueriesContext(connection) as made, capture(execute=True):
        jobs = prepare([row.pk for row in rows])
        finish([Result(job, label(number), 1.0) for number, job in enumerate(jobs)])
    return len(made)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What was released, by hold."""
    told: dict[str, Any] = {}
    monkeypatch.setattr("offload.release_many", lambda answers: told.update(answers) or True)
    return told


# Claim with parcel and account, guard; BEGIN, announcement, parcel with attempt and document,
# COMMIT; holds, released. As many for a group. SQLite takes "with" for statements of their own. One
# more where the account has a contract of its own, and one for the events of webhooks.
STATEMENTS = {"postgresql": 8, "sqlite": 11}


@pytest.mark.parametrize("count", [1, 20])
def test_the_statements_of_labels_in_the_worker(
    count: int, told: dict[str, Any], django_capture_on_commit_callbacks: Any
) -> None:
    rows = awaited(count)
    assert announce_all(rows, django_capture_on_commit_callbacks) == STATEMENTS[connection.vendor]
    assert set(Announcement.objects.values_list("state", flat=True)) == {State.ANNOUNCED}
    assert DocumentRow.objects.count() == Attempt.objects.count() == count
    assert len(told) == Hold.objects.exclude(released_at=None).count() == count
    for hold in Hold.objects.all():  # what the row would have told
        question = Question(**hold.question)
        assert told[hold.pk].content == final_answer(question, in_order(question.parcels)).content


@pytest.mark.parametrize("outcome", [Unknown("timeout"), NotSent("unreachable")])
def test_a_client_waits_on_when_a_try_has_brought_nothing(
    outcome: Any, told: dict[str, Any], django_capture_on_commit_callbacks: Any
) -> None:
    rows = awaited(2)
    with django_capture_on_commit_callbacks(execute=True):
        jobs = {job.announcement.pk: job for job in prepare([row.pk for row in rows])}
        outcomes = [outcome, label(2)]
        finish([Result(jobs[row.pk], said, 1.0) for row, said in zip(rows, outcomes, strict=True)])
    assert list(told) == [rows[1].holds.get().pk]
    assert rows[0].holds.get().released_at is None
    assert set(Attempt.objects.values_list("recorded", flat=True)) == {True}


def test_a_client_that_could_not_be_told_is_left_to_the_sweeper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    awaited(2)
    monkeypatch.setattr("offload.release_many", lambda _: False)
    assert release(list(Hold.objects.all())) == 0
    assert Hold.objects.filter(released_at=None).count() == 2


def test_of_a_group_only_those_whose_status_still_fits_are_moved(
    told: dict[str, Any], no_broker: Any, django_capture_on_commit_callbacks: Any
) -> None:
    """One is being cancelled meanwhile, and another shop has no webhook."""
    rows, others = awaited(2), awaited(1)
    WebhookEndpoint.objects.create(account=rows[0].account, url="https://shop.example/")
    every = [*rows, *others]
    with django_capture_on_commit_callbacks(execute=True):
        jobs = {job.announcement.pk: job for job in prepare([row.pk for row in every])}
        Parcel.objects.filter(pk=rows[1].parcel_id).update(status=Status.CANCELLATION_REQUESTED)
        finish([Result(jobs[row.pk], label(row.pk), 1.0) for row in every])
    found = Parcel.objects.in_bulk([row.parcel_id for row in every])
    shown = [(found[row.parcel_id].status, found[row.parcel_id].tracking_number) for row in every]
    statuses = Status.READY_TO_SEND, Status.CANCELLATION_REQUESTED, Status.READY_TO_SEND
    assert shown == [(status, f"3S{row.pk}") for status, row in zip(statuses, every, strict=True)]
    assert [event.parcel_id for event in WebhookEvent.objects.all()] == [rows[0].parcel_id]
    assert ("void", rows[1].pk, "postnl") in no_broker


def test_a_parcel_that_somebody_else_has_announced_is_read_again(
    told: dict[str, Any], django_capture_on_commit_callbacks: Any
) -> None:
    first = AnnouncementFactory.create()
    second = AnnouncementFactory.create(parcel__account=first.account)
    question = Question([first.parcel_id, second.parcel_id], "http://x", "/p", many=True)
    open_hold(Asked(first.account, question, until=monotonic() + 60), question, [first, second])
    with django_capture_on_commit_callbacks(execute=True):
        jobs = {job.announcement.pk: job for job in prepare([first.pk, second.pk])}
        Announcement.objects.filter(pk=second.pk).update(state=State.ANNOUNCED, fence=7)
        Parcel.objects.filter(pk=second.parcel_id).update(tracking_number="3STHEIRS")
        finish([Result(jobs[row.pk], label(row.pk), 1.0) for row in (first, second)])
    (answer,) = told.values()
    numbers = [parcel["tracking_number"] for parcel in json.loads(answer.content)["parcels"]]
    assert numbers == [f"3S{first.pk}", "3STHEIRS"]


def test_clients_are_told_before_webhooks_are_woken(
    monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    order: list[str] = []

    def release(_: Any) -> bool:
        order.append("client")
        return True

    monkeypatch.setattr("offload.release_many", release)
    monkeypatch.setattr("parcels.services.ending.send", lambda *_: order.append("webhook"))
    rows = awaited(2)
    WebhookEndpoint.objects.create(account=rows[0].account, url="https://shop.example/")
    announce_all(rows[:1], django_capture_on_commit_callbacks)
    ending = Ending(rows[1], State.FAILED, error="no")
    with django_capture_on_commit_callbacks(execute=True):
        assert end([ending], states=[State.PENDING])
    assert order == ["client", "webhook"] * 2


def test_a_batch_whose_draft_is_deleted_meanwhile_is_answered_without_it(
    told: dict[str, Any], django_capture_on_commit_callbacks: Any
) -> None:
    row = AnnouncementFactory.create()
    draft = ParcelFactory.create(account=row.account, status=Status.NO_LABEL)
    question = Question([draft.pk, row.parcel_id], "http://x", "/p", many=True)
    open_hold(Asked(row.account, question, until=monotonic() + 60), question, [row])
    assert cancel(account=row.account, parcel_id=draft.pk) == CANCELLED
    announce_all([row], django_capture_on_commit_callbacks)
    (answer,) = told.values()
    shown = json.loads(answer.content)["parcels"]
    assert [each["tracking_number"] for each in shown] == ["3S0"]


def test_one_that_can_t_be_recorded_keeps_no_other_from_it(
    told: dict[str, Any], django_capture_on_commit_callbacks: Any
) -> None:
    """A carrier's answer that the database refuses, as the values that it was checked for show."""
    rows = awaited(3)
    outcomes = [label(0), Announced("c-1", None, ()), label(2)]  # type: ignore[arg-type]
    with django_capture_on_commit_callbacks(execute=True):
        jobs = {job.announcement.pk: job for job in prepare([row.pk for row in rows])}
        told_by = zip(rows, outcomes, strict=True)
        finish([Result(jobs[row.pk], outcome, 1.0) for row, outcome in told_by])
    states = [Announcement.objects.get(pk=row.pk).state for row in rows]
    assert states == [State.ANNOUNCED, State.ANNOUNCING, State.ANNOUNCED]
    assert len(told) == 2


def test_one_of_a_group_that_meets_a_database_away_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    away, refused = OperationalError("it restarts"), DataError("a value is out of range")
    tried: list[list[Any]] = []

    def refuse(results: Sequence[Any]) -> None:
        tried.append([each.outcome for each in results])
        if len(results) > 1:
            raise refused
        if (outcome := results[0].outcome) and tried.count([outcome]) == 1:
            raise outcome

    monkeypatch.setattr("parcels.services.record.record", refuse)
    monkeypatch.setattr("parcels.services.record.AGAIN", 0.0)
    monkeypatch.setattr(protect, "leave", lambda _: None)
    job: Any = SimpleNamespace(announcement=AnnouncementFactory.build())
    outcomes: list[Any] = [None, away, refused]
    finish([Result(job, each, 1.0) for each in outcomes])
    assert tried == [outcomes, [None], [away], [refused], [away]]


@pytest.mark.parametrize(("left", "said"), [(0, []), (1, ["1 answers to be recorded again"])])
def test_what_is_to_be_recorded_again_is_said_without_the_row(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, left: int, said: list[str]
) -> None:
    failing: list[Exception] = [DataError("DETAIL: Failing row contains (Jane Doe).")]
    failing += [OperationalError("it restarts")] * left

    def fail_first(results: Sequence[Any]) -> None:
        if failing:
            raise failing.pop(0)

    monkeypatch.setattr("parcels.services.record.record", fail_first)
    monkeypatch.setattr("parcels.services.record.AGAIN", 0.0)
    monkeypatch.setattr(protect, "leave", lambda _: None)
    job: Any = SimpleNamespace(announcement=AnnouncementFactory.build())
    outcome: Any = None
    finish([Result(job, outcome, 1.0)])
    assert [each.getMessage() for each in caplog.records] == [f"{each}: DataError" for each in said]


def away_twice(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have the database be away for the first two tries; return the sizes of all."""
    tried: list[int] = []

    def away(results: Sequence[Result]) -> None:
        tried.append(len(results))
        if len(tried) < 3:
            raise OperationalError("the database is away")
        record(results)

    monkeypatch.setattr("parcels.services.record.record", away)
    monkeypatch.setattr("parcels.services.record.AGAIN", 0.2)
    return tried


@pytest.mark.parametrize(("lease", "tries"), [(75, 3), (0.1, 1)])
def test_an_answer_waits_for_a_database_that_is_away_while_its_lease_lasts(
    monkeypatch: pytest.MonkeyPatch, settings: Any, lease: float, tries: int
) -> None:
    tried = away_twice(monkeypatch)
    jobs = prepare([row.pk for row in awaited(2)])
    settings.ANNOUNCEMENT_LEASE = lease
    finish([Result(job, label(number), 0.0) for number, job in enumerate(jobs)])
    assert tried == [2] * tries
    announced = Announcement.objects.filter(state=State.ANNOUNCED).count()
    assert announced == (2 if tries == 3 else 0)


def test_a_label_of_a_carrier_that_can_t_be_asked_waits_for_the_database_in_a_thread_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = awaited(1)[0]
    tried = away_twice(monkeypatch)
    monkeypatch.setattr(transport, "perform", lambda steps, *_, **__: steps.close() or label(1))
    announce(row.pk)
    row.refresh_from_db()
    assert (tried, row.state) == ([1, 1, 1], State.ANNOUNCED)


def test_one_that_can_t_be_prepared_keeps_no_other_from_it() -> None:
    rows = awaited(3)
    rows[1].parcel.from_address = ["no object"]
    rows[1].parcel.save()
    assert {job.announcement for job in prepare([row.pk for row in rows])} == {rows[0], rows[2]}
    rows[1].refresh_from_db()
    assert (rows[1].state, rows[1].claims) == (State.PENDING, 1)


def test_a_backlog_that_is_turned_away_costs_one_question_and_one_statement(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CARRIERS = {
        code: carrier | {"bulkhead": 2} for code, carrier in settings.CARRIERS.items()
    }
    rows, others = awaited(20), awaited(1)
    asked: list[list[str]] = []
    counted = metrics.TURNED_AWAY.labels(rows[0].carrier, "bulkhead_full")._value
    before = counted.get()
    enter = CarrierGuards.enter

    def count(guards: CarrierGuards, accounts: list[str], **given: Any) -> Any:
        asked.append(accounts)
        return enter(guards, accounts, **given)

    monkeypatch.setattr(CarrierGuards, "enter", count)
    with CaptureQueriesContext(connection) as made:
        jobs = prepare([row.pk for row in rows + others])
    # Claim, parcel and account, guard, handing back.
    assert len(made) == (3 if connection.vendor == "postgresql" else 4)
    assert asked == [[str(row.account_id) for row in rows + others]]
    back = Announcement.objects.filter(state=State.PENDING, sent_at=None, lease_until=None)
    assert set(back) == {*rows, *others} - {job.announcement for job in jobs}
    assert len(jobs) == 2
    assert set(back.values_list("tries", "claims", "fence")) == {(0, 0, 1)}
    assert all(max(row.wake_at, row.run_at) <= timezone.now() for row in back)
    assert counted.get() == before + 19


def test_what_is_handed_back_is_ours(settings: Any) -> None:
    rows = awaited(3)
    claimed = claim([row.pk for row in rows])
    Announcement.objects.filter(pk=rows[0].pk).update(fence=7)
    Announcement.objects.filter(pk=rows[1].pk).update(state=State.ANNOUNCED)
    hand_back([(row, 60.0) for row in claimed])
    states = [Announcement.objects.get(pk=row.pk).state for row in rows]
    assert states == [State.ANNOUNCING, State.ANNOUNCED, State.PENDING]


@pytest.mark.parametrize(
    ("move", "state"),
    [
        (lambda row: move_on(row, State.UNKNOWN, 60.0), State.UNKNOWN),
        (lambda row: put_under_review(row, "why"), State.NEEDS_REVIEW),
    ],
)
def test_what_moves_on_is_ours(move: Callable[[Announcement], bool], state: State) -> None:
    rows = awaited(3)
    claimed = claim([row.pk for row in rows])
    Announcement.objects.filter(pk=rows[0].pk).update(fence=7)
    Announcement.objects.filter(pk=rows[1].pk).update(state=State.ANNOUNCED)
    assert [move(row) for row in claimed] == [False, False, True]
    states = [Announcement.objects.get(pk=row.pk).state for row in rows]
    assert states == [State.ANNOUNCING, State.ANNOUNCED, state]


@pytest.mark.skipif(connection.vendor == "postgresql", reason="claims and reads in one statement")
def test_what_is_claimed_again_before_it_was_read_is_not_ours() -> None:
    """This process was paused in between, for longer than its lease."""
    rows = awaited(2)

    def claimed_again_before(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith("SELECT"):
            Announcement.objects.filter(pk=rows[0].pk).update(fence=F("fence") + 1)
        return execute(sql, *rest)

    with connection.execute_wrapper(claimed_again_before):
        assert claim([row.pk for row in rows]) == [rows[1]]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="its parameters are in its text")
def test_what_reads_the_claimed_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each thread with its own connection, and for any number of rows."""
    first, *rest = awaited(4)
    (before,) = claim([first.pk])

    def compiles(*_: Any, **__: Any) -> Any:
        raise AssertionError("compiled again")

    monkeypatch.setattr(SQLCompiler, "pre_sql_setup", compiles)
    assert [row.pk for row in claim([])] == []
    claimed = claim([row.pk for row in rest])
    assert sorted(row.pk for row in claimed) == sorted(row.pk for row in rest)
    for row in (before, *claimed):
        assert row.parcel.account.pk == row.account_id  # joined: no further question
        assert row.settled_for == 0.0


def many_events() -> list[TrackingEvent]:
    """Return so many that PostgreSQL finds one by the index."""
    now = timezone.now()
    events = TrackingEvent.objects.bulk_create(
        TrackingEvent(seq=seq, at=now, status=1, carrier="", tracking_number="")
        for seq in range(2000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE parcels_trackingevent")
    return events


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite keeps no plans")
def test_a_change_of_rows_is_planned_once() -> None:
    """PostgreSQL plans a change once, however many rows it has, and finds them by the index."""
    events = many_events()
    with connection.cursor() as cursor:
        for event in events[:12]:  # unprepared, then five plans to compare
            change_rows(TrackingEvent, [{"id": event.pk}], "message = %s", "true", set_values=["-"])
        cursor.execute(
            "SELECT sum(generic_plans), sum(custom_plans) FROM pg_prepared_statements"
            " WHERE statement LIKE %s",
            ["UPDATE parcels_trackingevent AS own SET message%"],
        )
        assert cursor.fetchone() == (5, 5)
        cursor.execute(
            "SELECT sum(seq_tup_read) FROM pg_stat_xact_user_tables WHERE relname LIKE %s",
            ["parcels_trackingevent%"],
        )
        assert cursor.fetchone() == (0,)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite's writers take turns")
@pytest.mark.django_db(transaction=True)
def test_rows_are_changed_in_the_order_of_their_ids() -> None:
    """As a request locks those of a batch: else the two wait for each other."""
    first, *others = [event.pk for event in many_events()[:5]]

    def change() -> None:
        told = [{"id": each} for each in (*others, first)]
        change_rows(TrackingEvent, told, "message = %s", "true", set_values=["-"])
        connection.close()

    def waits() -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
            return cursor.fetchone() is not None

    changing = threading.Thread(target=change)
    with transaction.atomic():
        assert TrackingEvent.objects.select_for_update().get(pk=first)
        changing.start()
        until(waits, "the wait for the first")
        free = TrackingEvent.objects.select_for_update(skip_locked=True).filter(pk__in=others)
        locked = len(others) - len(free)
    changing.join()
    assert locked == 0


def test_the_guard_lets_only_those_buy_that_are_still_ours() -> None:
    rows = awaited(3)
    claimed = claim([row.pk for row in rows])
    Announcement.objects.filter(pk=rows[0].pk).update(fence=7)
    Announcement.objects.filter(pk=rows[1].pk).update(
        claimed_at=timezone.now() - timedelta(seconds=settings.ANNOUNCEMENT_LEASE / 4)
    )
    assert [job.announcement for job in guard(jobs_for(claimed))] == [rows[2]]
    assert list(Announcement.objects.filter(tries=1)) == [rows[2]]


def test_a_guard_that_refuses_gives_its_slot_back(monkeypatch: pytest.MonkeyPatch) -> None:
    row, late = awaited(2)
    assert prepare([row.pk])
    monkeypatch.setattr("parcels.services.claim.LEASE_SHARE", -1)
    assert not prepare([late.pk])
    assert carrier_guards.guards_of(row.carrier).in_flight() == 1


@pytest.mark.parametrize("paused", [0, 60])
@pytest.mark.parametrize("waits", [True, False], ids=["in a thread", "in the loop"])
def test_who_was_paused_after_the_guard_does_not_buy(
    monkeypatch: pytest.MonkeyPatch, waits: bool, paused: int
) -> None:
    def bought(steps: Any, url: str, deadline: float, *limits: Any) -> bool:
        call = Call(url, monotonic() + deadline, *limits)
        call.begin(next(steps))
        steps.close()
        with suppress(SendForbidden):
            call.leaving()
        return call.act_sent

    async def bought_in_loop(steps: Any, *limits: Any) -> bool:
        return bought(steps, *limits)

    monkeypatch.setattr(transport, "perform", bought)
    monkeypatch.setattr(transport_async, "perform", bought_in_loop)
    (job,) = prepare([awaited(1)[0].pk])
    job.guarded_at -= paused
    result = buy(job) if waits else asyncio.run(buy_async(job))
    assert result.outcome is (not paused)


@pytest.mark.parametrize("tries", [1, 9])
def test_a_label_is_taken_however_late(tries: int) -> None:
    """Its row was given up as unknown, long ago, and waits for a person."""
    row = awaited(1)[0]
    (job,) = prepare([row.pk])
    long_ago = timezone.now() - timedelta(days=10)
    given_up = Announcement.objects.filter(pk=row.pk)
    given_up.update(state=State.NEEDS_REVIEW, tries=tries, unknown_since=long_ago)
    job.announcement.state, job.announcement.tries = State.UNKNOWN, tries
    job.announcement.unknown_since, job.announcement.unknown_age = long_ago, 9e5
    finish([Result(job, label(1), 1.0)])
    row.refresh_from_db()
    assert (row.state, row.carrier_id) == (State.ANNOUNCED, "c-1")
    assert row.attempts.get().recorded


def test_permissions_go_back_once_and_before_the_answers_are_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the database is away then."""
    monkeypatch.setattr("parcels.services.record.AGAIN", 0.0)
    rows = awaited(2)
    jobs = prepare([row.pk for row in rows])
    slots = [job.slot for job in jobs]
    left: list[dict[str, Any]] = []
    monkeypatch.setattr(CarrierGuards, "leave", lambda _, **given: left.append(given))

    tried: list[int] = []

    def away(results: Sequence[Result]) -> None:
        assert len(left) == 1
        tried.append(len(results))
        if len(tried) < 3:
            raise OperationalError("the database is away")

    monkeypatch.setattr("parcels.services.record.record", away)
    results = [Result(job, label(number), 1.5) for number, job in enumerate(jobs)]
    finish(results)
    assert len(tried) == 3
    (given,) = left
    assert all(slots)
    assert given["slots"] == slots
    assert given["outcomes"] == [(False, 1.5, job.announcement.reference) for job in jobs]
    assert given["bought"] == [(1.5, True)] * 2


class _SaidByPostgreSQL(Exception):
    def __init__(self, sqlstate: str) -> None:
        self.sqlstate = sqlstate


@pytest.mark.parametrize(("sqlstate", "sizes"), [("40P01", [3, 1, 1, 1, 1]), ("57014", [3, 3, 3])])
def test_a_row_that_another_process_has_locked_loses_no_answer(
    monkeypatch: pytest.MonkeyPatch, sqlstate: str, sizes: list[int]
) -> None:
    """Of a deadlock the others are recorded at once; after a time-out all are tried again."""
    jobs = prepare([row.pk for row in awaited(3)])
    tried: list[int] = []
    locked: list[int] = []

    def record_unless_locked(results: Sequence[Result]) -> None:
        tried.append(len(results))
        if jobs[0] in [each.job for each in results] and len(locked) < 2:
            locked.append(1)
            raise OperationalError("canceled") from _SaidByPostgreSQL(sqlstate)
        record(results)

    monkeypatch.setattr("parcels.services.record.record", record_unless_locked)
    monkeypatch.setattr("parcels.services.record.AGAIN", 0.0)
    finish([Result(job, label(number), 1.0) for number, job in enumerate(jobs)])
    assert tried == sizes
    assert Announcement.objects.filter(state=State.ANNOUNCED).count() == 3


@pytest.mark.django_db(transaction=True)
def test_clients_that_can_t_be_told_leave_what_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweeper tells them; recorded again, each label would be a spare one, too."""

    def gone(_: Any) -> bool:
        raise OperationalError("the database went away after the commit")

    rows = awaited(2)
    WebhookEndpoint.objects.create(account=rows[0].account, url="https://shop.example/")
    jobs = prepare([row.pk for row in rows])
    woken: list[Any] = []
    monkeypatch.setattr("offload.release_many", gone)
    monkeypatch.setattr("parcels.services.ending.send", lambda *given: woken.append(given))
    finish([Result(job, label(number), 1.0) for number, job in enumerate(jobs)])
    assert Announcement.objects.filter(state=State.ANNOUNCED).count() == 2
    assert not SpareLabel.objects.exists()
    assert len(woken) == 2


@pytest.mark.parametrize("breaks", ["hand_back", "guard"])
def test_what_fails_before_the_calls_gives_their_permissions_back(
    monkeypatch: pytest.MonkeyPatch, breaks: str
) -> None:
    rows = awaited(3)
    left: list[str] = []
    monkeypatch.setattr(CarrierGuards, "leave", lambda _, **given: left.extend(given["slots"]))
    turned_away = {rows[0].pk: NotSent("bulkhead_full", retry_after=1.0)}
    enter = protect.enter
    monkeypatch.setattr(protect, "enter", lambda jobs: enter(jobs[1:]) | turned_away)

    def away(*_: Any, **__: Any) -> None:
        raise OperationalError("the database is away")

    monkeypatch.setattr(f"parcels.services.claim.{breaks}", away)
    with pytest.raises(OperationalError):
        prepare([row.pk for row in rows])
    assert len(set(left)) == 2


def test_a_repeat_that_fails_before_its_call_gives_its_permission_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (job,) = prepare([awaited(1)[0].pk])
    protect.leave([(job, None, 0.0)])
    left: list[str] = []
    monkeypatch.setattr(CarrierGuards, "leave", lambda _, **given: left.extend(given["slots"]))

    def away(_: Any) -> None:
        raise OperationalError("the database is away")

    monkeypatch.setattr(reconcile, "guard", away)
    with pytest.raises(OperationalError):
        reconcile._send_again(job)
    assert len(left) == 1


def test_a_probe_that_cannot_begin_stops_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = awaited(2)
    probing = ("", Admission(allowed=False, retry_after=1.0, probe="token"))
    monkeypatch.setattr(CarrierGuards, "enter", lambda *_, **__: [probing, ("a slot", None)])

    def exhausted(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", exhausted)
    assert [job.slot for job in prepare([row.pk for row in rows])] == ["a slot"]


def test_a_commit_whose_answer_was_lost_makes_no_second_label(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """PostgreSQL restarts: the commit was done, and its client is told of a lost connection."""
    row = awaited(1)[0]
    second = metrics.SECOND_LABELS.labels("answer")._value.get
    before, lost = second(), [OperationalError("server closed the connection unexpectedly")]

    def commits(results: Sequence[Result]) -> None:
        record(results)
        if lost:
            raise lost.pop()

    monkeypatch.setattr("parcels.services.record.record", commits)
    monkeypatch.setattr("parcels.services.record.AGAIN", 0.0)
    finish([Result(job, label(1), 0.0) for job in prepare([row.pk])])
    row.refresh_from_db()
    assert (row.state, row.parcel.tracking_number) == (State.ANNOUNCED, "3S1")
    assert [text for text in caplog.messages if "sold in addition" in text] == []
    assert (second() - before, SpareLabel.objects.count(), row.attempts.count()) == (0, 0, 1)
