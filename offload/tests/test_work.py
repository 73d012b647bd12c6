"""A task's work, as a worker does it: once, committed, and then released."""

import sys
from unittest import mock

import pytest
from django.core.files.base import ContentFile
from django.db import (
    DatabaseError,
    IntegrityError,
    OperationalError,
    connection,
    connections,
)

from offload import tasks
from offload.awaited import HoldState, resolve
from offload.tests.orders import Express, Order, buy_label

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def settled(orders, offload_settings):
    offload_settings(RESOLVE="offload.awaited.resolve", BACKEND="asgi")


def test_work_that_raises_keeps_nothing_but_that(stored):
    order = Order.objects.create(note="broken")
    assert order.begin_hold(30, "")
    with pytest.raises(RuntimeError):
        buy_label.work(str(order.pk), str(order.hold_id))
    order.refresh_from_db()
    assert (order.hold_state, order.parts) == (HoldState.FAILED, {})
    assert stored[order.hold_id].status == 500
    assert resolve([order.hold_id])[order.hold_id].status_code == 500


def test_work_that_exits_is_a_500_too(stored, monkeypatch):
    """`sys.exit` of a program's, a cancelled coroutine, gevent's time-out: no Exception."""
    order = Order.objects.create()
    order.begin_hold(30, "")
    monkeypatch.setattr(buy_label, "_function", sys.exit)
    with pytest.raises(SystemExit):
        buy_label.work(str(order.pk), str(order.hold_id))
    order.refresh_from_db()
    assert order.hold_state == HoldState.FAILED
    assert [answer.status for answer in stored.values()] == [500]


@pytest.mark.django_db(transaction=True)
def test_an_outcome_that_the_database_refuses_does_not_undo_the_work(stored, offload_settings):
    offload_settings(STORE="postgresql", BACKEND="inline")
    order = Order.objects.create(note="clash")
    order.begin_hold(30, "")
    with pytest.raises(IntegrityError):
        buy_label.work(str(order.pk), str(order.hold_id))
    order.refresh_from_db()
    assert (order.hold_state, order.label) == (HoldState.DONE, f"label of {order.pk}")
    assert stored[order.hold_id].status == 500


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("database", "within"), [("default", True), ("another", False)])
def test_only_the_store_s_own_database_is_released_in_the_transaction(
    offload_settings, monkeypatch, database, within
):
    offload_settings(STORE="postgresql", BACKEND="inline", DATABASE=database)
    order = Order.objects.create()
    order.begin_hold(30, "")
    at = []

    def release(hold_id, answer):
        at.append(connection.in_atomic_block)
        return True

    monkeypatch.setattr("offload.tasks.release", release)
    buy_label.work(str(order.pk), str(order.hold_id))
    assert at == [within]


@pytest.mark.django_db(transaction=True)
def test_what_is_not_sent_with_the_commit_does_not_delay_it(offload_settings, monkeypatch):
    """A worker that is killed while it tries again would lose what it has bought."""
    offload_settings(STORE="postgresql", BACKEND="inline")
    order = Order.objects.create()
    order.begin_hold(30, "")
    at = []

    def release(hold_id, answer):
        at.append(connection.in_atomic_block)
        return len(at) == 3

    monkeypatch.setattr("offload.tasks.release", release)
    monkeypatch.setattr("offload.tasks.AGAIN", 0.0)
    buy_label.work(str(order.pk), str(order.hold_id))
    assert at == [True, False, False]


@pytest.mark.django_db(transaction=True)
def test_what_a_failed_commit_took_back_is_released_again(offload_settings, monkeypatch):
    offload_settings(STORE="postgresql", BACKEND="inline")
    order = Order.objects.create()
    order.begin_hold(30, "")
    at = []

    def release(hold_id, answer):
        at.append((connection.in_atomic_block, answer.status_code))
        return True

    monkeypatch.setattr("offload.tasks.release", release)
    lost = mock.patch.object(connections["default"], "commit", side_effect=OperationalError)
    with lost, pytest.raises(OperationalError):
        buy_label.work(str(order.pk), str(order.hold_id))
    assert at == [(True, 200), (False, 500)]


def too_much(order):
    order.parts = {"not JSON": object()}


def deleted(order):
    Order.objects.filter(pk=order.pk).delete()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("store", ["redis", "postgresql"])
@pytest.mark.parametrize("work", [too_much, deleted])
def test_changes_that_the_database_refuses_are_a_failure(stored, offload_settings, store, work):
    """The client waited for its whole time, and the row for ANSWER_TTL more."""
    offload_settings(STORE=store, BACKEND="inline")
    order = Order.objects.create()
    order.begin_hold(30, "")
    with mock.patch.object(buy_label, "_function", work), pytest.raises((TypeError, DatabaseError)):
        buy_label.work(str(order.pk), str(order.hold_id))
    assert [answer.status for answer in stored.values()] == [500]
    states = Order.objects.filter(pk=order.pk).values_list("hold_state", flat=True)
    assert [*states] == ["failed"] * (work is too_much)


def test_bytes_of_psycopg2_are_copied():
    assert tasks._copied(memoryview(b"x")) == b"x"


def test_only_what_the_work_changed_is_written(stored):
    order = Order.objects.create()
    order.begin_hold(30, "")

    def meanwhile(row):
        Order.objects.filter(pk=row.pk).update(note="by another")
        row.label = "mine"

    with mock.patch.object(buy_label, "_function", meanwhile):
        buy_label.work(str(order.pk), str(order.hold_id))
    before = order.updated_at
    order.refresh_from_db()
    assert (order.label, order.note) == ("mine", "by another")
    assert order.updated_at > before


def test_a_file_of_the_same_name_is_written(stored):
    order = Order.objects.create(document=ContentFile(b"old", "label.pdf"))
    order.begin_hold(30, "")

    def again(row):
        row.document = ContentFile(b"new", "label.pdf")

    with mock.patch.object(buy_label, "_function", again):
        buy_label.work(str(order.pk), str(order.hold_id))
    assert Order.objects.get().document.read() == b"new"


class Vector(list):
    """Compares as numpy's arrays do, which pgvector's field reads."""

    def __ne__(self, other):
        return Vector([mine != its for mine, its in zip(self, other, strict=True)])

    def __bool__(self):
        raise ValueError("The truth value of an array with more than one element is ambiguous.")

    def any(self):
        return any(list(self))


@pytest.mark.parametrize(("later", "kept"), [("ab", "xy"), ("abc", "ab")])
def test_vectors_that_the_work_has_not_changed_are_left(stored, monkeypatch, later, kept):
    """Others may have written meanwhile. Of two lengths they don't compare: that is a change."""
    order = Order.objects.create(note="ab")
    order.begin_hold(30, "")
    values = iter([Vector("ab"), Vector(later)])
    field = Order._meta.get_field("note")
    monkeypatch.setattr(field, "value_from_object", lambda _: next(values))

    def work(row):
        row.label = "bought"
        Order.objects.filter(pk=row.pk).update(note="xy")

    monkeypatch.setattr(buy_label, "_function", work)
    buy_label.work(str(order.pk), str(order.hold_id))
    assert [*Order.objects.values_list("note", "label")] == [(kept, "bought")]


@pytest.mark.django_db(transaction=True)
def test_no_connection_is_kept_for_the_work_nor_from_it(stored, monkeypatch):
    order = Order.objects.create()
    order.begin_hold(30, "")
    done = []
    monkeypatch.setattr(connection, "close", lambda: done.append("closed"))
    monkeypatch.setattr(buy_label, "_function", lambda _: done.append("work"))
    buy_label.work(str(order.pk), str(order.hold_id))
    assert done == ["closed", "work", "closed"]


@pytest.fixture
def away(monkeypatch):
    """Take the database away for as many calls as the list has entries."""
    left: list[None] = []
    connect = connection.ensure_connection

    def ensure_connection():
        if left:
            left.pop()
            raise OperationalError("the server is restarting")
        connect()

    monkeypatch.setattr(connection, "ensure_connection", ensure_connection)
    monkeypatch.setattr("offload.tasks.AGAIN", 0.01)
    yield left
    left.clear()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("before", [3, 0])
@pytest.mark.parametrize("store", ["redis", "postgresql"])
def test_a_database_that_restarts_loses_no_work(
    stored, offload_settings, monkeypatch, away, store, before
):
    offload_settings(STORE=store, BACKEND="inline")
    order = Order.objects.create()
    order.begin_hold(30, "")

    def work(row):
        row.label = "bought"
        away.extend([None] * 3)

    monkeypatch.setattr(buy_label, "_function", work)
    away.extend([None] * before)
    buy_label.work(str(order.pk), str(order.hold_id))
    order.refresh_from_db()
    assert (order.hold_state, order.label) == (HoldState.DONE, "bought")
    assert [answer.status for answer in stored.values()] == [200]


@pytest.fixture
def cut():
    """Use Django's own pool, without CONN_HEALTH_CHECKS; return what ends its connections."""
    base = pytest.importorskip("django.db.backends.postgresql.base")
    ours = connections["default"]
    pools = type("Pooled", (base.DatabaseWrapper,), {"_connection_pools": {}})
    pooled = pools({**ours.settings_dict, "OPTIONS": {"pool": {"min_size": 4}}}, "default")
    pooled.pool.open(wait=True)
    connections["default"] = pooled

    def end_all():
        with ours.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        ours.close()

    yield end_all
    pooled.close()
    pooled.close_pool()
    connections["default"] = ours


@pytest.mark.skipif(connection.vendor == "sqlite", reason="has no server")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("begun", [False, True])
def test_a_pool_that_a_restart_has_cut_loses_no_work(stored, monkeypatch, cut, begun):
    order = Order.objects.create()
    order.begin_hold(30, "")
    connection.close()

    def work(row):
        row.label = "bought"
        if begun:
            cut()

    monkeypatch.setattr(buy_label, "_function", work)
    if not begun:
        cut()
    buy_label.work(str(order.pk), str(order.hold_id))
    order.refresh_from_db()
    assert (order.hold_state, order.label) == (HoldState.DONE, "bought")
    assert [answer.status for answer in stored.values()] == [200]


@pytest.mark.parametrize("usable", [False, True])
def test_the_connection_of_a_test_s_transaction_is_left(monkeypatch, usable):
    """An error in it makes it unusable: closed, it would end the whole TestCase."""
    closed = []
    monkeypatch.setattr(connection, "is_usable", lambda: usable)
    monkeypatch.setattr(connection, "close", lambda: closed.append(1))
    tasks._reach("default")
    assert closed == []


@pytest.mark.django_db(transaction=True)
def test_a_database_that_takes_connections_only_is_not_asked_without_a_pause(monkeypatch):
    pauses: list[float] = []
    monkeypatch.setattr(
        tasks, "time", mock.Mock(sleep=pauses.append, monotonic=lambda: len(pauses))
    )
    monkeypatch.setattr(connection, "is_usable", lambda: False)
    tasks._reach("default")
    assert len(pauses) == tasks.RELEASES * tasks.AGAIN + 1


@pytest.mark.django_db(transaction=True)
def test_a_client_of_a_database_that_stays_away_is_told(stored, monkeypatch, away):
    order = Order.objects.create()
    order.begin_hold(30, "")
    monkeypatch.setattr(buy_label, "_function", lambda _: away.extend([None] * 999))
    with pytest.raises(OperationalError):
        buy_label.work(str(order.pk), str(order.hold_id))
    assert [answer.status for answer in stored.values()] == [500]


@pytest.mark.parametrize("model", [Order, Express])
def test_a_second_delivery_while_it_is_at_work_is_left_to_the_first(stored, monkeypatch, model):
    """Celery sends a message again whose answer is late: both are in the queue."""
    order = model.objects.create()
    order.begin_hold(30, "")
    begun: list[str] = []
    early: list[str] = []

    def work(row):
        begun.append(row.hold_id)
        if len(begun) < 3:
            buy_label.work(str(order.pk), order.hold_id)
            early.extend(stored)
        row.label = "bought"

    monkeypatch.setattr(buy_label, "model", model)
    monkeypatch.setattr(buy_label, "_function", work)
    buy_label.work(str(order.pk), order.hold_id)
    assert (begun, early) == ([order.hold_id], [])
    order.refresh_from_db()
    assert (order.hold_state, order.label) == (HoldState.DONE, "bought")
    assert [answer.status for answer in stored.values()] == [200]


@pytest.mark.parametrize("model", [Order, Express])
def test_of_two_deliveries_at_once_one_is_done(stored, monkeypatch, model):
    order = model.objects.create()
    order.begin_hold(30, "")
    other: list[bool] = []
    begun: list[str] = []

    def meanwhile(execute, sql, *rest):
        if sql.startswith("UPDATE") and not other:
            other.append(True)
            buy_label.work(str(order.pk), order.hold_id)
        return execute(sql, *rest)

    monkeypatch.setattr(buy_label, "model", model)
    monkeypatch.setattr(buy_label, "_function", lambda row: begun.append(row.hold_id))
    with connection.execute_wrapper(meanwhile):
        buy_label.work(str(order.pk), order.hold_id)
    assert begun == [order.hold_id]


def test_a_row_that_is_worked_on_is_joined_and_not_resolved(stored, monkeypatch):
    order = Order.objects.create()
    order.begin_hold(30, "")
    seen: list[object] = []

    def work(row):
        again = Order.objects.get()
        seen.extend([again.begin_hold(30, ""), again.hold_id, resolve([again.hold_id])])
        seen.append(again.hold_answer().status_code)

    monkeypatch.setattr(buy_label, "_function", work)
    buy_label.work(str(order.pk), str(order.hold_id))
    assert seen == [False, order.hold_id, {}, 202]


def test_a_second_delivery_only_releases_again(stored):
    order = Order.objects.create()
    order.begin_hold(30, "")
    buy_label.work(str(order.pk), str(order.hold_id))
    first = dict(stored)
    stored.clear()
    with mock.patch.object(buy_label, "_function", side_effect=AssertionError):
        buy_label.work(str(order.pk), str(order.hold_id))
    assert stored == first


@pytest.mark.parametrize(("taken_at", "tried"), [(3, 3), (99, 15)])
def test_a_release_that_redis_does_not_take_is_repeated(monkeypatch, stored, taken_at, tried):
    order = Order.objects.create()
    order.begin_hold(30, "")
    said = []

    def release(hold_id, answer):
        said.append(hold_id)
        return len(said) == taken_at

    monkeypatch.setattr("offload.tasks.release", release)
    monkeypatch.setattr("offload.tasks.AGAIN", 0.0)
    buy_label.work(str(order.pk), str(order.hold_id))
    assert said == [str(order.hold_id)] * tried


def test_work_of_an_earlier_wait_is_left_to_the_later_one(stored):
    order = Order.objects.create()
    order.begin_hold(30, "")
    with mock.patch.object(buy_label, "_function", side_effect=AssertionError):
        buy_label.work(str(order.pk), "a" * 32)
    assert stored == {}
    order.refresh_from_db()
    assert order.hold_state == HoldState.WAITING
