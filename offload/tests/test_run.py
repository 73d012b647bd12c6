"""`run`: a row, its work elsewhere, and the outcome in the answer."""

from contextlib import nullcontext
from datetime import timedelta
from typing import Any, cast
from unittest import mock

import pytest
from django.db import (
    connection,
    models,
    transaction,
)
from django.http import HttpResponse, JsonResponse
from django.test import Client, RequestFactory, override_settings
from django.urls import path
from django.utils import timezone
from rest_framework.renderers import (
    AdminRenderer,
    BaseRenderer,
    BrowsableAPIRenderer,
    JSONRenderer,
    TemplateHTMLRenderer,
)
from rest_framework.views import APIView

import offload
from offload import tasks
from offload.awaited import HoldState, resolve
from offload.checks import check_offload
from offload.testing import eager
from offload.tests.orders import Express, Line, Order, buy_label

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def settled(orders, offload_settings):
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


@pytest.mark.parametrize("kind", [TemplateHTMLRenderer, AdminRenderer, BrowsableAPIRenderer])
def test_an_outcome_whose_renderer_wants_a_view_is_rendered_without(
    offload_eager, monkeypatch, kind
):
    monkeypatch.setattr(Api, "renderer_classes", (JSONRenderer, kind))
    answer = Client().post("/api", headers={"Accept": "text/html"})
    assert (answer.status_code, answer.json()["label"]) == (200, Order.objects.get().label)


def test_a_hook_of_the_view_s_own_is_left_to_the_test(
    offload_eager, django_capture_on_commit_callbacks
):
    def view(request):
        transaction.on_commit(list)
        return buy(request)

    with (
        override_settings(ROOT_URLCONF=(path("x", view),)),
        django_capture_on_commit_callbacks() as captured,
    ):
        assert Client().post("/x").status_code == 200
    assert captured == [list]


@pytest.mark.parametrize("robust", [True, False])
def test_a_hook_that_raises_does_as_django_has_it(offload_eager, robust):
    def view(request):
        transaction.on_commit(lambda: 1 / 0, robust=robust)
        return by_hand(request)

    told = nullcontext() if robust else pytest.raises(ZeroDivisionError)
    with override_settings(ROOT_URLCONF=(path("x", view),)), told:
        assert Client().post("/x").json() == {"by": Order.objects.get().pk}


def test_what_is_forgotten_is_gone_without_a_store(offload_eager, hold_id):
    offload.release(hold_id, HttpResponse("a"))
    assert offload.forget([hold_id])
    assert offload_eager.answer(hold_id) is None


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


@pytest.mark.parametrize("eagerly", [eager, nullcontext])
@pytest.mark.parametrize("function", [lambda order: None, buy])
def test_a_task_that_no_worker_would_find_is_refused(function, eagerly):
    """Its client would wait for its whole time, while the tests are green."""
    order = Order.objects.create()
    with eagerly(), pytest.raises(TypeError, match="by its name"):
        offload.run(offload.task(Order)(function), order)
    order.refresh_from_db()
    assert order.hold_state != HoldState.WAITING


def test_a_row_that_no_worker_would_find_is_refused(stored):
    order = Order.objects.create()
    with pytest.raises(TypeError, match="saved Order"):
        offload.run(cast(Any, offload.task(Express)(print)), order)
    with pytest.raises(TypeError, match="a saved Order"):
        offload.run(buy_label, Order())
    order._state.db = "another"  # of its `using`, of which no router knows
    with pytest.raises(ValueError, match="'another'"):
        offload.run(buy_label, order)
    order.refresh_from_db(using="default")
    assert order.hold_state != HoldState.WAITING


def test_a_task_is_called_like_its_function():
    order = Order(pk=3)
    buy_label(order)
    assert (order.label, buy_label.path) == ("label of 3", "offload.tests.orders.buy_label")
