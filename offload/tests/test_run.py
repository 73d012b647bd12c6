"""`run`: a row, its work elsewhere, and the outcome in the answer."""

import sys
from contextlib import nullcontext
from datetime import timedelta
from typing import Any, cast
from unittest import mock

import pytest
from django.core.files.base import ContentFile
from django.db import (
    DatabaseError,
    IntegrityError,
    OperationalError,
    connection,
    models,
    transaction,
)
from django.http import HttpResponse, JsonResponse
from django.test import Client, RequestFactory, override_settings
from django.urls import path
from django.utils import timezone
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.views import APIView

import offload
from offload import tasks
from offload.awaited import HoldState, resolve
from offload.checks import check_offload
from offload.testing import eager
from offload.tests.orders import Express, Line, Order, buy_label

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="session")
def _orders(django_db_setup, django_db_blocker):
    with django_db_blocker.unblock(), connection.schema_editor() as editor:
        editor.create_model(Order)
        editor.create_model(Express)
        editor.create_model(Line)


@pytest.fixture(autouse=True)
def settled(_orders, offload_settings):
    offload_settings({"ROOT_URLCONF": __name__}, RESOLVE="offload.awaited.resolve", BACKEND="asgi")


@pytest.fixture
def enqueued(monkeypatch):
    queue = []
    monkeypatch.setitem(tasks.RUNNERS, "thread", lambda *names: queue.append(names))
    return queue


def buy(request, pk=None, note="", wait=30):
    with transaction.atomic():
        order = Order.objects.get(pk=pk) if pk else Order.objects.create(note=note)
        return offload.run(buy_label, order, wait=wait)


def buy_drf(request):
    order = Order.objects.create(note="drf")
    return offload.run(buy_label, order, request=request)


class Xml(BaseRenderer):
    media_type = "application/xml"
    format = "xml"

    def render(self, data, accepted_media_type=None, renderer_context=None):
        return f"<order>{data['label']}</order>".encode()


class Api(APIView):
    authentication_classes = permission_classes = ()
    renderer_classes = (JSONRenderer, Xml)

    def post(self, request):
        return buy_drf(request)


def by_hand(request):
    """As before the small API: a queue is told after the commit."""
    order = Order.objects.create(hold_id="a" * 32)
    transaction.on_commit(lambda: offload.release("a" * 32, JsonResponse({"by": order.pk})))
    return offload.hold("a" * 32, late=HttpResponse(status=202), wait=30)


def never(request):
    return offload.hold("b" * 32, late=HttpResponse(status=202), wait=30)


urlpatterns = [
    path("buy", buy),
    path("buy/<int:pk>", buy),
    path("broken", buy, {"note": "broken"}),
    path("unspeakable", buy, {"note": "unspeakable"}),
    path("api", Api.as_view()),
    path("by-hand", by_hand),
    path("never", never),
]


def test_eager_gives_the_real_outcome_at_once():
    with eager():
        answer = Client().post("/buy")
    order = Order.objects.get()
    assert (answer.status_code, answer.json()) == (
        200,
        {"order": order.pk, "label": f"label of {order.pk}"},
    )
    assert (order.hold_state, order.parts) == (HoldState.DONE, {"seen": True})


def test_the_first_release_of_a_hold_counts_there_too(offload_eager, hold_id):
    for said in (b"first", b"second"):
        offload.release(hold_id, HttpResponse(said))
    response = offload.wait(hold_id, 0)
    assert response is not None
    assert response.content == b"first"


def test_the_pytest_fixture(offload_eager):
    assert Client().post("/buy").status_code == 200


@pytest.mark.parametrize("address", ["/broken", "/unspeakable"])
def test_work_that_raises_is_a_500(offload_eager, address):
    assert Client().post(address).status_code == 500


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


class Primary:
    def db_for_write(self, model, **hints):
        return "default"


def test_a_row_of_a_replica_is_changed_where_it_may_be(stored, django_capture_on_commit_callbacks):
    order = Order.objects.create()
    order._state.db = "replica"
    with (
        override_settings(DATABASE_ROUTERS=[f"{__name__}.Primary"]),
        mock.patch.dict(tasks.RUNNERS, {"thread": tasks.execute}),
        django_capture_on_commit_callbacks(execute=True),
    ):
        offload.run(buy_label, order)
    assert Order.objects.get().hold_state == HoldState.DONE


def test_on_commit_of_a_view_s_own_is_run_in_a_testcase(offload_eager):
    assert list(Client().post("/by-hand").json()) == ["by"]


def test_what_nothing_releases_is_late_at_once(offload_eager):
    assert Client().post("/never").status_code == 202


@pytest.mark.parametrize(
    ("accept", "kind", "body"),
    [
        ("application/json", "application/json", b'{"order":%d,"label":"label of %d"}'),
        ("application/xml", "application/xml", b"<order>label of %d</order>"),
        (
            "application/json; indent=1",
            "application/json",
            b'{\n "order": %d,\n "label": "label of %d"\n}',
        ),
    ],
)
def test_drf_s_answer_is_rendered_as_the_client_asked(offload_eager, accept, kind, body):
    answer = Client().post("/api", headers={"Accept": accept})
    pk = Order.objects.get().pk
    assert answer["Content-Type"].startswith(kind)
    assert answer.content == body % ((pk,) * body.count(b"%d"))


def test_a_client_s_long_parameters_are_left_out(offload_eager):
    Client().post("/api", headers={"Accept": f"application/json; a={'b' * 230}"})
    assert Order.objects.get().hold_renderer.endswith(".JSONRenderer application/json")
    Client().post("/api", headers={"Accept": "application/json; a=b"})
    assert Order.objects.latest("pk").hold_renderer.endswith(" application/json; a=b")


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


@pytest.mark.django_db(transaction=True)
def test_a_client_of_a_database_that_stays_away_is_told(stored, monkeypatch, away):
    order = Order.objects.create()
    order.begin_hold(30, "")
    monkeypatch.setattr(buy_label, "_function", lambda _: away.extend([None] * 999))
    with pytest.raises(OperationalError):
        buy_label.work(str(order.pk), str(order.hold_id))
    assert [answer.status for answer in stored.values()] == [500]


def test_a_coroutine_is_no_task():
    with pytest.raises(TypeError, match="nothing would await"):

        @offload.task(Order)
        async def buy_soon(order):
            pass


def test_a_row_may_have_a_key_of_several_columns(offload_eager):
    line = Line.objects.create(number=1, place=2)
    with mock.patch.object(buy_label, "model", Line):
        offload.run(cast(Any, buy_label), line)
    line.refresh_from_db()
    assert (line.hold_state, line.label) == (HoldState.DONE, "label of (1, 2)")


@pytest.mark.parametrize("model", [Order, Express])
def test_a_second_delivery_while_it_is_at_work_is_left_to_the_first(stored, monkeypatch, model):
    """Celery sends a message again whose answer is late: both are in the queue."""
    order = model.objects.create()
    order.begin_hold(30, "")
    begun: list[str] = []

    def work(row):
        begun.append(row.hold_id)
        if len(begun) < 3:
            buy_label.work(str(order.pk), order.hold_id)
        row.label = "bought"

    monkeypatch.setattr(buy_label, "model", model)
    monkeypatch.setattr(buy_label, "_function", work)
    buy_label.work(str(order.pk), order.hold_id)
    assert begun == [order.hold_id]
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


def test_a_broker_s_lost_answer_stops_no_work(
    monkeypatch, stored, django_capture_on_commit_callbacks
):
    """Else the row is free, and the next request has it done a second time."""
    states: list[str] = []

    def taken(path, pk, hold_id):
        def work(row):
            with pytest.raises(ConnectionError):
                tasks._start(buy_label, row)
            states.append(Order.objects.get().hold_state)

        monkeypatch.setitem(tasks.RUNNERS, "thread", lost)
        with mock.patch.object(buy_label, "_function", work):
            tasks.execute(path, pk, hold_id)

    def lost(*names):
        raise ConnectionError("time-out")

    monkeypatch.setitem(tasks.RUNNERS, "thread", taken)
    with django_capture_on_commit_callbacks(execute=True):
        buy(RequestFactory().post("/"))
    assert states == ["working"]
    assert Order.objects.get().hold_state == HoldState.DONE
    assert [answer.status for answer in stored.values()] == [200]


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


def test_a_second_request_joins_the_first_one_s_wait(enqueued, django_capture_on_commit_callbacks):
    order = Order.objects.create()
    request = RequestFactory().post("/")
    with django_capture_on_commit_callbacks(execute=True):
        first, second = buy(request, order.pk), buy(request, order.pk)
    assert first.offload_hold.hold_id == second.offload_hold.hold_id
    assert enqueued == [
        ("offload.tests.orders.buy_label", str(order.pk), first.offload_hold.hold_id)
    ]


def test_of_two_requests_at_once_one_begins():
    order = Order.objects.create()
    one, other = Order.objects.get(), Order.objects.get()
    assert (one.begin_hold(30, ""), other.begin_hold(30, "")) == (True, False)
    assert one.hold_id == other.hold_id
    order.refresh_from_db()
    assert order.hold_id == one.hold_id


def test_of_two_requests_for_a_child_s_row_one_begins():
    """Django's update of a parent's columns looks first, and then writes what it has found."""
    order = Express.objects.create()
    begun: list[bool] = []

    def meanwhile(execute, sql, *rest):
        if sql.startswith("UPDATE") and not begun:
            begun.append(True)
            assert Express.objects.get().begin_hold(30, "")
        return execute(sql, *rest)

    with connection.execute_wrapper(meanwhile):
        assert not order.begin_hold(30, "")
    assert order.hold_id == Express.objects.get().hold_id


def test_a_wait_that_is_over_is_begun_anew():
    """The worker was lost: nobody waits for it for ever."""
    order = Order.objects.create()
    assert order.begin_hold(30, "")
    old = order.hold_id
    order.hold_until = timezone.now() - timedelta(seconds=299)
    assert not order.begin_hold(30, "")  # it may still be at work, and is not to be done twice
    order.hold_until = timezone.now() - timedelta(seconds=301)
    assert order.begin_hold(30, "")
    assert order.hold_id != old


def test_work_of_an_earlier_wait_is_left_to_the_later_one(stored):
    order = Order.objects.create()
    order.begin_hold(30, "")
    with mock.patch.object(buy_label, "_function", side_effect=AssertionError):
        buy_label.work(str(order.pk), "a" * 32)
    assert stored == {}
    order.refresh_from_db()
    assert order.hold_state == HoldState.WAITING


def test_no_queue_is_an_error_now_and_not_a_wait(
    monkeypatch, stored, django_capture_on_commit_callbacks
):
    def away(path, pk, hold_id):
        raise ConnectionError("no broker")

    monkeypatch.setitem(tasks.RUNNERS, "thread", away)
    with pytest.raises(ConnectionError), django_capture_on_commit_callbacks(execute=True):
        buy(RequestFactory().post("/"))
    order = Order.objects.get()
    assert order.hold_state == HoldState.FAILED
    # For those that joined its wait meanwhile.
    assert [(key, answer.status) for key, answer in stored.items()] == [(order.hold_id, 500)]


def test_a_broker_s_lost_answer_undoes_no_work(
    monkeypatch, stored, django_capture_on_commit_callbacks
):
    def taken(*names):
        tasks.execute(*names)
        raise ConnectionError("time-out")

    monkeypatch.setitem(tasks.RUNNERS, "thread", taken)
    with pytest.raises(ConnectionError), django_capture_on_commit_callbacks(execute=True):
        buy(RequestFactory().post("/"))
    assert Order.objects.get().hold_state == HoldState.DONE
    assert [answer.status for answer in stored.values()] == [200]


def test_resolve_tells_what_it_may():
    done, waiting, old = (Order.objects.create() for _ in range(3))
    for order in (done, waiting, old):
        order.begin_hold(30, "")
    Order.objects.filter(pk=done.pk).update(hold_state="done", label="x")
    Order.objects.filter(pk=old.pk).update(
        hold_state="done", hold_until=timezone.now() - timedelta(seconds=301)
    )
    ids = [str(order.hold_id) for order in (done, waiting, old)]
    assert [*resolve(ids)] == ids[:1]
    both = resolve(ids, final_only=False)
    assert [both[key].status_code for key in ids[:2]] == [200, 202]
    assert ids[2] not in both


def test_tables_with_rows_take_the_columns():
    """Without a value for each: two empty hold ids are not the same."""
    assert Order.objects.create().hold_id is None
    assert Order.objects.create().hold_id is None


@pytest.mark.integration
@pytest.mark.django_db(transaction=True)
def test_a_thread_of_this_process(redis_server, offload_settings):
    offload_settings(
        {"ROOT_URLCONF": __name__},
        RESOLVE="offload.awaited.resolve",
        BACKEND="inline",
        REDIS_URL=redis_server.url,
    )
    answer = Client().post("/buy")
    assert (answer.status_code, list(answer.json())) == (200, ["order", "label"])


def test_celery_is_told_by_name(offload_settings, monkeypatch):
    pytest.importorskip("celery")
    offload_settings(TASKS="celery")
    told = mock.Mock()
    monkeypatch.setattr(tasks.by_celery, "delay", told)
    buy_label.enqueue(Order(pk=7, hold_id="a" * 32))
    told.assert_called_once_with("offload.tests.orders.buy_label", "7", "a" * 32)
    assert tasks.by_celery.name == "offload.execute"


def test_django_s_tasks_are_told_by_name(offload_settings):
    pytest.importorskip("django.tasks")
    offload_settings(TASKS="django")
    order = Order.objects.create()
    order.begin_hold(30, "")
    immediate = {"default": {"BACKEND": "django.tasks.backends.immediate.ImmediateBackend"}}
    with eager(), override_settings(TASKS=immediate):
        buy_label.enqueue(order)
    order.refresh_from_db()
    assert order.hold_state == HoldState.DONE


@pytest.mark.parametrize(
    ("tasks", "debug", "expected"),
    [
        ("pigeon", False, ["offload.E009"]),
        ("thread", False, ["offload.W010"]),
        ("thread", True, []),
        ("celery", False, []),
    ],
)
def test_the_queue_is_checked(offload_settings, tasks, debug, expected):
    pytest.importorskip("celery")
    offload_settings({"DEBUG": debug}, BACKEND="inline", TASKS=tasks)
    assert [message.id for message in check_offload()] == expected


@pytest.mark.parametrize(
    ("backends", "expected"),
    [
        (
            {"default": {"BACKEND": "django.tasks.backends.immediate.ImmediateBackend"}},
            ["offload.W010"],
        ),
        ({"default": {"BACKEND": "django.tasks.backends.dummy.DummyBackend"}}, ["offload.W010"]),
        ({"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}, []),
    ],
)
def test_django_s_own_backends_are_no_queue(offload_settings, monkeypatch, backends, expected):
    monkeypatch.setitem(tasks.RUNNERS, "django", print)
    offload_settings({"TASKS": backends}, BACKEND="inline", TASKS="django")
    assert [message.id for message in check_offload()] == expected


@pytest.mark.parametrize("model", [len, models.Model, "shop.Order"])
def test_a_task_names_its_model(model):
    with pytest.raises(TypeError, match=r"@offload\.task\(Order\)"):
        offload.task(model)


@pytest.mark.parametrize("eagerly", [eager, nullcontext])
@pytest.mark.parametrize("work", [lambda order: None, "offload.tests.orders.buy_label"])
def test_what_is_no_task_is_refused_before_the_row_waits(work, eagerly):
    order = Order.objects.create()
    with eagerly(), pytest.raises(TypeError, match=r"@offload\.task"):
        offload.run(work, order)
    order.refresh_from_db()
    assert order.hold_state != HoldState.WAITING


def test_a_row_that_no_worker_would_find_is_refused(stored):
    order = Order.objects.create()
    with pytest.raises(TypeError, match="an Order"):
        offload.run(cast(Any, offload.task(Express)(print)), order)
    order._state.db = "another"  # of its `using`, of which no router knows
    with pytest.raises(ValueError, match="'another'"):
        offload.run(buy_label, order)
    order.refresh_from_db(using="default")
    assert order.hold_state != HoldState.WAITING


def test_a_task_is_called_like_its_function():
    order = Order(pk=3)
    buy_label(order)
    assert (order.label, buy_label.path) == ("label of 3", "offload.tests.orders.buy_label")
