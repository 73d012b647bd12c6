"""`hold` always works: where nothing holds the client, the worker waits for it."""

import json
import threading
import time
from typing import Any

import pytest
from asgiref.sync import ThreadSensitiveContext, async_to_sync, sync_to_async
from django.http import HttpResponse, JsonResponse
from django.test import (
    AsyncClient,
    AsyncRequestFactory,
    Client,
    RequestFactory,
    override_settings,
)
from django.urls import path

import offload
from offload import inline, protocol
from offload.keys import CLIENT
from offload.middleware import OffloadMiddleware
from offload.responses import to_response
from offload.tests import outcomes

FRONTS = ["accel", "njs", "poll", "uwsgi"]
IN_PROCESS = ["asgi", "inline", "async"]


def late():
    response = JsonResponse({"state": "working"}, status=202, headers={"Retry-After": "5"})
    response["X-Stack"] = "yes"
    return response


def through_middleware(request, hold_id, wait):
    view = lambda _: offload.hold(hold_id, late=late(), wait=wait)  # noqa: E731
    answer: Any = OffloadMiddleware(view)(request)
    return answer


@pytest.fixture(autouse=True)
def settled(offload_settings):
    offload_settings(BACKEND="inline")
    outcomes.known.clear()


@pytest.mark.integration
@pytest.mark.parametrize("front", IN_PROCESS)
def test_the_worker_waits(offload_settings, redis_server, hold_id, front):
    offload_settings(BACKEND=front, REDIS_URL=redis_server.url)
    releasing = threading.Timer(
        0.3, offload.release, [hold_id, HttpResponse("released", status=201)]
    )
    releasing.start()
    answer = through_middleware(RequestFactory().get("/"), hold_id, wait=10)
    releasing.join()
    assert (answer.status_code, answer.content) == (201, b"released")
    assert answer["X-Stack"] == "yes"  # merged as a front would have
    assert "Retry-After" not in answer
    assert "X-Offload-Ticket" not in answer
    assert answer["Content-Length"] == "8"


@pytest.mark.integration
@pytest.mark.parametrize("status", [204, 304])
def test_no_body_is_given_where_none_may_be(offload_settings, redis_server, hold_id, status):
    """uvicorn breaks the connection of such an answer."""
    offload_settings(BACKEND="inline", REDIS_URL=redis_server.url)
    offload.release(hold_id, HttpResponse("{}", status=status))
    answer = through_middleware(RequestFactory().get("/"), hold_id, wait=10)
    assert (answer.status_code, answer.content) == (status, b"")
    assert "Content-Length" not in answer
    stored = protocol.Answer(status, (), b"{}")  # as by an older version
    assert to_response(stored).content == b""


@pytest.mark.integration
@pytest.mark.parametrize("front", IN_PROCESS)
def test_the_time_is_up(offload_settings, hold_id, front):
    offload_settings(BACKEND=front)
    start = time.monotonic()
    answer = through_middleware(RequestFactory().get("/"), hold_id, wait=0.2)
    assert (answer.status_code, json.loads(answer.content)) == (202, {"state": "working"})
    assert time.monotonic() - start >= 0.2
    assert "X-Offload-Ticket" not in answer


@pytest.mark.integration
async def test_a_coroutine_waits_in_its_loop(offload_settings, redis_server, hold_id):
    offload_settings(BACKEND="asgi", REDIS_URL=redis_server.url)

    async def view(request):
        return offload.hold(hold_id, late=late(), wait=10)

    releasing = threading.Timer(0.3, offload.release, [hold_id, HttpResponse("released")])
    releasing.start()
    middleware: Any = OffloadMiddleware(view)
    answer = await middleware(AsyncRequestFactory().get("/"))
    releasing.join()
    assert (answer.content, "X-Offload-Ticket" in answer) == (b"released", False)


@pytest.mark.integration
async def test_a_coroutine_waits_without_the_connections_of_a_synchronous_view(
    offload_settings, redis_server, hold_id, monkeypatch
):
    offload_settings(BACKEND="async", REDIS_URL=redis_server.url)
    in_view, given_back = [], []

    def give_back():
        given_back.append(threading.get_ident())

    monkeypatch.setattr(inline, "give_connections_back", give_back)

    def view(request):
        in_view.append(threading.get_ident())
        return offload.hold(hold_id, late=late(), wait=0.2)

    middleware: Any = OffloadMiddleware(sync_to_async(view))
    async with ThreadSensitiveContext():
        answer = await middleware(AsyncRequestFactory().get("/"))
    assert answer.status_code == 202
    assert given_back == in_view


hold_ids: list[str] = []
urlpatterns = [path("slow", lambda request: offload.hold(hold_ids[-1], late=late(), wait=10))]


@pytest.mark.integration
@pytest.mark.parametrize("front", [*FRONTS, *IN_PROCESS])
def test_the_test_client_gets_the_outcome(offload_settings, hold_id, front):
    offload_settings(BACKEND=front)
    outcomes.known[hold_id] = 7
    hold_ids.append(hold_id)
    with override_settings(ROOT_URLCONF=__name__):
        answer = Client().get("/slow")
    assert (answer.status_code, answer.json()) == (200, {"final": 7})
    assert not [name for name in answer.headers if name.startswith(("X-Offload", "X-Accel"))]


@pytest.mark.integration
@pytest.mark.parametrize("front", FRONTS)
def test_runserver_gets_the_outcome(offload_settings, hold_id, front):
    offload_settings(BACKEND=front)
    outcomes.known[hold_id] = 7
    request = RequestFactory().get("/", SERVER_SOFTWARE="WSGIServer/0.2")
    answer = through_middleware(request, hold_id, wait=10)
    assert json.loads(answer.content) == {"final": 7}


@pytest.mark.integration
@pytest.mark.parametrize("front", FRONTS)
def test_a_front_is_believed_to_be_there_under_any_other_server(offload_settings, hold_id, front):
    offload_settings(BACKEND=front)
    request = RequestFactory().get("/", SERVER_SOFTWARE="gunicorn/27")
    answer = through_middleware(request, hold_id, wait=10)
    assert {"X-Offload-Ticket", "X-Accel-Redirect"} & set(answer.headers)


@pytest.mark.integration
@pytest.mark.parametrize("front", FRONTS)
def test_a_view_without_csrf_is_no_test_client(offload_settings, hold_id, front):
    offload_settings(BACKEND=front)

    def view(request):
        request._dont_enforce_csrf_checks = True  # a common way for an API
        return offload.hold(hold_id, late=late(), wait=10)

    answer: Any = OffloadMiddleware(view)(RequestFactory().get("/"))
    assert {"X-Offload-Ticket", "X-Accel-Redirect"} & set(answer.headers)


async def test_a_late_answer_is_stored_by_the_view_s_own_connection(
    offload_settings, hold_id, monkeypatch
):
    offload_settings(BACKEND="accel", STORE="postgresql")
    threads = []
    monkeypatch.setattr(
        "offload.middleware.store_late", lambda *_, **__: threads.append(threading.get_ident())
    )

    def view(request):
        threads.append(threading.get_ident())
        return offload.hold(hold_id, late=late(), wait=0.2)

    middleware: Any = OffloadMiddleware(sync_to_async(view))
    async with ThreadSensitiveContext():
        await middleware(AsyncRequestFactory().get("/"))
    assert threads == threads[:1] * 2


def test_the_asgi_middleware_is_known_by_its_mark(offload_settings, hold_id):
    offload_settings(BACKEND="asgi")
    request: Any = RequestFactory().get("/")
    client = request.META[CLIENT] = protocol.Client(time.monotonic())
    through_middleware(request, hold_id, wait=10)
    assert client.hold is not None


@pytest.mark.integration
@pytest.mark.django_db
@pytest.mark.parametrize("get", [Client().get, async_to_sync(AsyncClient().get)])
def test_a_wait_inside_a_test_s_transaction_is_said(hold_id, caplog, get):
    outcomes.known[hold_id] = 7
    hold_ids.append(hold_id)
    with override_settings(ROOT_URLCONF=__name__):
        assert get("/slow").json() == {"final": 7}
    assert "inside a transaction" in caplog.text
