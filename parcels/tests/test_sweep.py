"""The safety net: what a death, a lost message or a lost store leaves behind."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from django.conf import settings as project
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import offload
from deploy.tests.waiting import until
from parcels import unguarded
from parcels.management.commands import sweeper as command
from parcels.management.commands.sweeper import Sweeper
from parcels.models import (
    Announcement,
    Hold,
    State,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from parcels.services import carrier_guards, holds, partitions, sweep, void, webhooks
from parcels.services.claim import claim, prepare
from parcels.statuses import Status
from parcels.tests.factories import AccountFactory, AnnouncementFactory

pytestmark = pytest.mark.django_db
PAST = timedelta(seconds=-1)


def moved(announcement: Announcement, **moments: timedelta) -> Announcement:
    changes = {name: timezone.now() + delta for name, delta in moments.items()}
    Announcement.objects.filter(pk=announcement.pk).update(**changes)
    announcement.refresh_from_db()
    return announcement


def test_a_lease_that_ran_out_unsent_is_pending_again() -> None:
    row = AnnouncementFactory.create()
    claim([row.pk])
    moved(row, lease_until=PAST)
    assert sweep.end_leases() == 1
    row.refresh_from_db()
    assert (row.state, row.lease_until, row.fence) == (State.PENDING, None, 1)


def test_a_lease_that_ran_out_after_the_guard_is_unknown() -> None:
    row = AnnouncementFactory.create()
    assert prepare([row.pk])
    moved(row, lease_until=PAST)
    sweep.end_leases()
    row.refresh_from_db()
    assert row.state == State.UNKNOWN
    assert row.sent_at is not None


def test_suspects_come_back_one_by_one() -> None:
    """The fault suite's F28: each death of a killer's process was its neighbours' claim, too."""
    rows = [AnnouncementFactory.create(claims=1) for _ in range(8)]
    for row in rows:
        claim([row.pk])
    Announcement.objects.update(lease_until=timezone.now() + PAST)
    assert sweep.end_leases() == 8
    moments = sorted(Announcement.objects.values_list("run_at", flat=True))
    assert (moments[-1] - moments[0]).total_seconds() > 10


def test_a_lease_that_runs_is_left_alone() -> None:
    row = AnnouncementFactory.create()
    prepare([row.pk])
    assert sweep.end_leases() == 0


def test_each_is_woken_once_in_a_while_and_by_one_sweeper() -> None:
    pending = AnnouncementFactory.create()
    unknown = AnnouncementFactory.create(state=State.UNKNOWN)
    AnnouncementFactory.create(state=State.ANNOUNCED)
    later = moved(AnnouncementFactory.create(), wake_at=timedelta(seconds=60))
    woken = {(due.id, due.task) for due in sweep.due_announcements()}
    assert woken == {(pending.pk, "announce"), (unknown.pk, "reconcile")}
    assert list(sweep.due_announcements()) == []  # a second sweeper, or the next round
    sweep.wake_all_again()
    assert later.pk in {due.id for due in sweep.due_announcements()}


def test_no_more_are_woken_than_there_is_room_for(settings: Any) -> None:
    settings.CARRIERS = settings.CARRIERS | {"postnl": {"url": "http://x", "bulkhead": 10}}
    carrier_guards.forget()
    for _ in range(15):
        AnnouncementFactory.create()
    for _ in range(4):
        carrier_guards.guards_of("postnl").enter([""])
    assert len(list(sweep.due_announcements())) == 6


@pytest.mark.parametrize(("off", "woken"), [([], 2), (["turns"], 0)])
def test_a_long_backlog_leaves_another_account_its_turn(
    settings: Any, without: Callable[..., None], off: list[str], woken: int
) -> None:
    without(*off)
    settings.CARRIERS = settings.CARRIERS | {"postnl": {"url": "http://x", "bulkhead": 6}}
    carrier_guards.forget()
    shops = [AccountFactory.create(), AccountFactory.create()]
    for number, shop in enumerate([shops[0]] * 20 + [shops[1]] * 2):
        row = AnnouncementFactory.create(account=shop)
        moved(row, wake_at=timedelta(seconds=number - 60))
    accounts = [due.account_id for due in sweep.due_announcements()]
    assert (len(accounts), accounts.count(shops[1].pk)) == (6, woken)


@pytest.mark.parametrize(("off", "first"), [([], 1), (["turns"], 0)])
def test_the_only_free_slot_is_for_the_account_with_fewer_calls(
    settings: Any, without: Callable[..., None], off: list[str], first: int
) -> None:
    """The scenario `neighbour`: a backlog's oldest was always older, and took every slot."""
    without(*off)
    settings.CARRIERS = settings.CARRIERS | {"postnl": {"url": "http://x", "bulkhead": 1}}
    carrier_guards.forget()
    shops = [AccountFactory.create(), AccountFactory.create()]
    for calls, shop in zip((3, 1), shops, strict=True):
        for _ in range(calls):
            AnnouncementFactory.create(account=shop, state=State.ANNOUNCING)
        moved(AnnouncementFactory.create(account=shop), wake_at=timedelta(seconds=calls - 60))
    moved(AnnouncementFactory.create(account=shops[0]), wake_at=timedelta(seconds=-90))
    assert [due.account_id for due in sweep.due_announcements()] == [shops[first].pk]


def test_a_review_that_is_overdue_shows_as_failed() -> None:
    row = moved(AnnouncementFactory.create(state=State.NEEDS_REVIEW), deadline_at=PAST)
    assert sweep.show_overdue_reviews() == 1
    row.parcel.refresh_from_db()
    assert row.parcel.status == Status.ANNOUNCEMENT_FAILED
    assert "under review" in row.parcel.carrier_error


def test_a_round_with_nothing_to_do_asks_few_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round takes place each second, by day and by night, on each machine."""
    sweeper = Sweeper()
    monkeypatch.setattr("parcels.management.commands.sweeper.broker_identity", lambda: None)
    monkeypatch.setattr("parcels.management.commands.sweeper.connection.close", lambda: None)
    AnnouncementFactory.create(state=State.ANNOUNCED)
    assert sweeper.round() is True
    with CaptureQueriesContext(connection) as seen:
        assert sweeper.round() is True
    sweeper.end()
    # Leases, due rows, voids, events, deliveries, holds; on PostgreSQL its timeline, too.
    assert len(seen) <= 6 + (connection.vendor == "postgresql")


@pytest.mark.parametrize(
    "rows",
    [
        sweep.expired_leases,
        sweep.forgotten_holds,
        void.due_announcements,
        webhooks.forgotten_events,
        webhooks.due_endpoints,
    ],
)
def test_a_question_that_is_compiled_once_names_no_moment(rows: Any) -> None:
    _, values = rows().query.exists().get_compiler(connection=connection).as_sql()
    assert not re.findall(r"\d{4}-\d\d-\d\d", str(values))


def test_a_round_does_what_came_after_its_first(
    sweeper: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def note(name: str) -> list[int]:
        done.append(name)
        return []

    for place, name in (
        (sweep, "end_leases"),
        (sweep, "release_forgotten"),
        (void, "due_voids"),
        (webhooks, "spread_forgotten"),
        (webhooks, "due_deliveries"),
    ):
        monkeypatch.setattr(place, name, partial(note, name))
    watching = Sweeper()
    watching.round()
    assert done == []
    ended = AnnouncementFactory.create(state=State.ANNOUNCED)
    hold_of(ended, 1, -60)
    moved(AnnouncementFactory.create(state=State.ANNOUNCING), lease_until=PAST)
    event = WebhookEvent.objects.create(account=ended.account, parcel=ended.parcel, status=1000)
    shop = WebhookEndpoint.objects.create(account=ended.account, url="https://shop.test/")
    WebhookDelivery.objects.create(endpoint=shop, event=event)
    WebhookEvent.objects.update(date_created=timezone.now() - timedelta(seconds=6))
    parcel = ended.parcel
    parcel.status, parcel.date_cancel_requested = Status.CANCELLATION_REQUESTED, parcel.date_created
    parcel.save()
    moved(ended, wake_at=PAST)
    watching.round()
    watching.end()
    assert sorted(done) == [
        "due_deliveries",
        "due_voids",
        "end_leases",
        "release_forgotten",
        "spread_forgotten",
    ]


def test_a_round_outlives_its_database(monkeypatch: pytest.MonkeyPatch) -> None:
    sweeper = Sweeper()
    monkeypatch.setattr("parcels.management.commands.sweeper.broker_identity", lambda: None)
    monkeypatch.setattr("parcels.management.commands.sweeper.connection.close", lambda: None)

    def gone() -> int:
        raise OperationalError("the database is restarting")

    with monkeypatch.context() as broken:
        broken.setattr(sweep, "due_announcements", gone)
        assert sweeper.round() is False
    assert sweeper.round() is True
    sweeper.end()


def test_work_beside_the_round_frees_its_room_however_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Closing a connection may raise, too, where the database is away."""
    sweeper = Sweeper()

    def gone() -> None:
        raise OperationalError("the database is restarting")

    monkeypatch.setattr(command, "connection", SimpleNamespace(close=gone))
    assert sweeper._beside(sweeper.following, gone)
    sweeper.pool.shutdown()
    assert sweeper.following.acquire(blocking=False)


def test_a_ready_file_that_cannot_be_written_ends_no_sweeper(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    settings.RUN_DIR = folder = tmp_path / "run"
    ready, ended = folder / "sweeper.ready", []
    # Its folder is there in the third round alone.
    rounds = iter([lambda: None, lambda: None, folder.mkdir, lambda: shutil.rmtree(folder)])
    written: list[bool] = []

    def work() -> bool:
        written.append(ready.exists())
        next(rounds)()
        return True

    fake = SimpleNamespace(round=work, end=lambda: ended.append(True))
    monkeypatch.setattr(command, "Sweeper", lambda: fake)
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    call_command("sweeper", every=0.001, rounds=4)
    assert written == [False, False, False, True]
    assert ended
    assert [each.levelname for each in caplog.records] == ["ERROR", "ERROR"]  # once per outage


def test_a_signal_ends_the_sweeper_after_its_round(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Mock()
    fake.round.side_effect = lambda: signal.raise_signal(signal.SIGTERM)
    monkeypatch.setattr(command, "Sweeper", lambda: fake)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        call_command("sweeper", every=3600)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    fake.round.assert_called_once_with()
    fake.end.assert_called_once_with()


@pytest.mark.parametrize("option", ["--every=-1", "--every=nan", "--hung=0", "--hung=1e9"])
def test_seconds_that_no_round_can_take_are_refused(
    option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "Sweeper", Mock(side_effect=AssertionError))
    with pytest.raises(CommandError, match="not above 0 and at most 86400 seconds"):
        call_command("sweeper", option)


@pytest.fixture
def sweeper(monkeypatch: pytest.MonkeyPatch) -> Sweeper:
    """Return a sweeper without a broker and with no thread of its own to spare."""
    made = Sweeper()
    monkeypatch.setattr("parcels.management.commands.sweeper.broker_identity", lambda: None)
    monkeypatch.setattr("parcels.management.commands.sweeper.send", lambda *_: False)
    monkeypatch.setattr(made, "_do_myself", lambda *_: False)
    return made


def test_a_wake_up_that_was_not_delivered_is_sent_again(sweeper: Sweeper) -> None:
    """Finding 9: an hour without Redis must not cost an hour of sleep after it."""
    row = moved(AnnouncementFactory.create(), date_created=timedelta(hours=-1))
    sweeper.round()
    assert [due.id for due in sweep.due_announcements()] == [row.pk]
    row.refresh_from_db()
    assert row.wake_at - timezone.now() < timedelta(seconds=61)  # SQLite rounds up
    with unguarded.without("wake"):
        moved(row, wake_at=PAST)
        sweeper.round()
    assert list(sweep.due_announcements()) == []


def test_all_are_woken_when_the_broker_is_back(
    sweeper: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = moved(AnnouncementFactory.create(), wake_at=timedelta(minutes=1))
    seen = iter(["one", None, "one", "one", "another"])
    monkeypatch.setattr("parcels.management.commands.sweeper.broker_identity", lambda: next(seen))
    woken = []
    for _ in range(5):
        sweeper._notice_new_broker()
        woken.append([due.id for due in sweep.due_announcements()])
        moved(row, wake_at=timedelta(minutes=1))
    assert woken == [[], [], [row.pk], [], [row.pk]]


def test_the_feed_is_read_once_at_a_time_also_after_a_thread_that_could_not_start(
    sweeper: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an executor can't start a thread for stays in its queue, for the next one's threads."""
    go_on, readers = threading.Event(), []

    def read() -> None:
        readers.append(1)
        go_on.wait(10)

    monkeypatch.setattr(sweeper.follower, "catch_up", read)
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError))
        for _ in range(3):
            with suppress(RuntimeError):
                sweeper._follow_tracking()
    sweeper._follow_tracking()
    for _ in range(4):
        sweeper.pool.submit(int)  # other work brings threads
    try:
        until(lambda: readers and sweeper.pool._work_queue.empty(), "all are at work")
        assert readers == [1]
    finally:
        go_on.set()
        sweeper.end()


def test_the_feed_and_the_partitions_have_intervals_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(partitions, "tend", lambda: seen.append("tend"))
    sweeper = Sweeper()
    monkeypatch.setattr(sweeper, "_beside", lambda _, work: seen.append(work.__name__))
    for moment in (0, 2, 4, 20, 3601):
        monkeypatch.setattr(command, "monotonic", lambda now=moment: now)
        for look in sweeper.rare:
            look()
    # Without a storage there are no files of labels.
    assert [seen.count(name) for name in ("catch_up", "tend", "tidy")] == [4, 2, 0]


def hold_of(announcement: Announcement, number: int, age: float) -> Hold:
    """Return a hold whose deadline was so many seconds ago."""
    hold = Hold.objects.create(
        id=f"hold-{number}",
        account=announcement.account,
        question={},
        deadline_at=timezone.now() - timedelta(seconds=age),
    )
    hold.announcements.add(announcement)
    return hold


def test_a_client_that_was_answered_is_not_answered_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = AnnouncementFactory.create(state=State.ANNOUNCED)
    waits, answered = hold_of(row, 1, -60), hold_of(row, 2, -60)
    Hold.objects.update(question={"parcels": [row.parcel_id]})
    Hold.objects.filter(pk=answered.pk).update(released_at=timezone.now())
    released: list[str] = []
    monkeypatch.setattr(
        holds, "release", lambda found, _: released.extend(hold.pk for hold in found)
    )
    holds.release_holds([row.pk])
    assert released == [waits.pk]


def test_a_hold_that_can_t_be_answered_keeps_no_other_client_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    row = AnnouncementFactory.create(state=State.ANNOUNCED)
    bad, newer, plain = (hold_of(row, number, -60) for number in range(3))
    plain.question = {"parcels": [row.parcel_id], "base": "http://h", "path": "/api/v2/parcels"}
    newer.question = plain.question | {"of_a_newer_version": True}
    bad.question = {"parcels": [row.parcel_id]}
    Hold.objects.bulk_update([bad, newer, plain], ["question"])
    told = Mock(return_value=True)
    monkeypatch.setattr(offload, "release_many", told)
    assert sweep.release_forgotten() == 3
    assert set(told.call_args[0][0]) == {newer.pk, plain.pk}
    assert f"no answer can be made for hold {bad.pk}" in caplog.text


@pytest.mark.parametrize(("behind", "found"), [(30, True), (300, False)])
def test_a_client_of_a_host_that_is_behind_is_answered(behind: int, found: bool) -> None:
    row = AnnouncementFactory.create(state=State.ANNOUNCED)
    hold_of(row, 1, behind)
    assert sweep.forgotten_holds().exists() == found


def test_old_holds_are_forgotten_in_portions_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "FORGET_AT_ONCE", 2)
    row = AnnouncementFactory.create()
    *_, older, kept = [
        hold_of(row, number, age) for number, age in enumerate((9000, 8000, 3700, 3500))
    ]
    assert sweep.forget_old_holds() == 2
    assert set(Hold.objects.all()) == {older, kept}
    assert sweep.forget_old_holds() == 1
    assert sweep.forget_old_holds() == 0
    assert set(Hold.objects.all()) == {kept}


@pytest.mark.integration
@pytest.mark.parametrize(
    ("searches", "rows", "statements", "indexes", "tables"),
    [
        ("hold_plans", "20000", 2, {"hold_age", "hold_waiting"}, ["hold"]),
        ("keep_plans", "5000", 2, {"parcel_age", "document_age"}, ["parcel", "document"]),
        (
            "figure_plans",
            "5000",
            3,
            {"announcement_lease", "announcement_wake", "announcement_overdue"},
            ["announcement"],
        ),
    ],
)
@pytest.mark.deployment
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_is_asked_over_and_over_reads_no_whole_table(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    kind: str,
    searches: str,
    rows: str,
    statements: int,
    indexes: set[str],
    tables: list[str],
) -> None:
    if (kind, searches) == ("sqlite", "figure_plans"):
        pytest.skip("SQLite takes no index for a list of parameters")
    url = f"sqlite:///{tmp_path / 'db.sqlite3'}"
    if kind == "postgresql":
        url = request.getfixturevalue("postgresql").create_database(f"{searches}_{os.getpid()}")
    environment = {
        **os.environ,
        "DEBUG": "1",
        "DJANGO_SETTINGS_MODULE": "shipping.settings",
        "DATABASE_URL": url,
        "RUN_DIR": str(tmp_path),
        "LOG_LEVEL": "ERROR",
    }
    printed = subprocess.check_output(
        [sys.executable, "-m", f"parcels.tests.{searches}", rows],
        cwd=project.BASE_DIR,
        env=environment,
        timeout=280,
    )
    found = json.loads(printed)
    assert len({statement for statement, _ in found}) == statements
    plans = {plan for _, plan in found}
    assert {plan for plan in plans if not any(index in plan for index in indexes)} == set()
    for table in tables:
        # PostgreSQL says "Seq Scan on", SQLite "SCAN"; a "Bitmap Heap Scan on" is by an index.
        whole = re.compile(rf"(?<!heap )scan (on )?parcels_{table}\b(?! using)", re.IGNORECASE)
        assert {plan for plan in plans if whole.search(plan)} == set()


def test_old_rows_are_looked_for_again_at_once_only_while_there_are_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [2, 1, 0, 0, 0]
    now = [100.0]
    monkeypatch.setattr(command, "monotonic", lambda: now[0])
    step = command.seldom(lambda: found.pop(0))
    for _ in range(5):
        step()
    assert found == [0, 0]
    now[0] += command.SELDOM
    step()
    assert found == [0]
