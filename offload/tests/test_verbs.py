import time
import uuid
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpResponse, JsonResponse
from django.test import RequestFactory
from django.urls import path

import offload
from offload import store
from offload.fronts import Front
from offload.keys import ANSWER_KEY, CLIENT, HOLD_PATH, LATE_KEY
from offload.middleware import OffloadMiddleware
from offload.protocol import Client, decode_answer
from offload.tests.processes import SECRET
from offload.tickets import read_ticket

REMOTE = ["accel", "njs", "poll", "uwsgi"]


def late(status=202):
    response = JsonResponse({"state": "working"}, status=status, headers={"Retry-After": "5"})
    response.set_cookie("a", "1")
    return response


urlpatterns = [path("", lambda _: offload.hold(uuid.uuid4(), late=late()))]


def through_middleware(response, client=None):
    request: Any = RequestFactory().get("/")
    request.META[CLIENT] = client  # as HoldMiddleware does
    answer: Any = OffloadMiddleware(lambda _: response)(request)
    return answer


def held_in_process(hold_id, **options):
    """Return HoldMiddleware's record of a client that is to be held."""
    client = Client(time.monotonic())
    through_middleware(offload.hold(hold_id, late=late(), **options), client)
    return client


def ticket_of(answer):
    place = answer.headers.get("X-Accel-Redirect", HOLD_PATH).removeprefix(HOLD_PATH)
    return read_ticket(SECRET, answer.headers.get("X-Offload-Ticket", place), now=time.time())


@pytest.mark.parametrize(
    ("front", "expected"),
    [(front, True) for front in [*REMOTE, "asgi"]] + [("inline", False), ("async", False)],
)
def test_holds_clients(offload_settings, front, expected):
    offload_settings(BACKEND=front)
    assert offload.holds_clients() is expected


@pytest.mark.parametrize(
    ("wait", "expected"), [(None, 20), (5, 5), (500, 20)], ids=["default", "shorter", "clipped"]
)
def test_deadline(offload_settings, hold_id, wait, expected):
    offload_settings(BACKEND="asgi", DEADLINE=20)
    held = offload.hold(hold_id, late=late(), wait=wait)
    assert vars(held)["offload_hold"].deadline == pytest.approx(time.time() + expected, abs=2)


@pytest.mark.parametrize("wait", [0, -1])
def test_no_time_is_no_hold(offload_settings, hold_id, wait):
    offload_settings(BACKEND="asgi")
    assert held_in_process(hold_id, wait=wait).hold is None


@pytest.mark.parametrize(("status", "expected"), [(202, 423), (200, 200)])
def test_deadline_status(offload_settings, hold_id, status, expected):
    offload_settings(BACKEND="asgi", DEADLINE_STATUS=423)
    assert offload.hold(hold_id, late=late(status)).status_code == expected


def test_answers_that_nobody_holds_pass_unchanged(offload_settings):
    offload_settings(BACKEND="accel")
    response = HttpResponse("plain")
    assert through_middleware(response) is response


@pytest.mark.integration
async def test_the_asynchronous_way(offload_settings, hold_id):
    offload_settings(BACKEND="accel")

    async def view(request):
        return offload.hold(hold_id, late=late())

    middleware: Any = OffloadMiddleware(view)
    answer = await middleware(RequestFactory().get("/"))
    assert ticket_of(answer).hold_id == hold_id


def test_asgi_keeps_the_late_answer(offload_settings, hold_id):
    offload_settings(BACKEND="asgi")
    client = held_in_process(hold_id, account="shop")
    answer = decode_answer(client.late)
    assert (answer.status, answer.body) == (202, b'{"state": "working"}')
    assert ("Set-Cookie", "a=1; Path=/") in answer.headers
    assert client.hold is not None
    assert client.hold[:2] == (hold_id, "shop")


@pytest.mark.parametrize("front", ["accel", "asgi"])
def test_a_late_answer_that_can_not_be_kept_is_given_at_once(
    offload_settings, hold_id, front, caplog
):
    offload_settings(BACKEND=front, MAX_ANSWER=3)
    client = Client(time.monotonic())
    answer = through_middleware(offload.hold(hold_id, late=late()), client)
    assert (answer.status_code, answer.content) == (202, b'{"state": "working"}')
    assert not {"X-Offload-Ticket", "X-Accel-Redirect"} & set(answer.headers)
    assert client.hold is None
    assert "its late answer can't be kept" in caplog.text


def test_nobody_s_key_counts_for_no_account(offload_settings, hold_id):
    """An anonymous user's: else all of them would share one account's limit."""
    offload_settings(BACKEND="asgi")
    client = held_in_process(hold_id, account=None)
    assert client.hold is not None
    assert client.hold.account == ""


MINE = Front(lambda late, ticket: late)


def test_a_front_by_its_dotted_path(offload_settings):
    offload_settings(BACKEND=f"{__name__}.MINE")
    assert offload.holds_clients()


def test_a_front_that_a_test_replaces_is_looked_up_again(offload_settings, monkeypatch):
    offload_settings(BACKEND=f"{__name__}.MINE")
    assert offload.holds_clients()
    monkeypatch.setattr(f"{__name__}.MINE", Front(lambda late, ticket: late, holds=False))
    assert not offload.holds_clients()


@pytest.mark.parametrize(
    ("front", "status"), [("accel", 200), ("njs", 418), ("poll", 418), ("uwsgi", 202)]
)
@pytest.mark.integration
def test_remote_fronts(offload_settings, redis_server, hold_id, front, status):
    offload_settings(BACKEND=front, REDIS_URL=redis_server.url)
    answer = through_middleware(offload.hold(hold_id, late=late()))
    assert (answer.status_code, answer.content) == (status, b"")
    assert len(answer.headers) == 1  # nothing that the client would get twice
    assert not answer.cookies
    ticket = ticket_of(answer)
    stored = decode_answer(redis_server.client.get(LATE_KEY + ticket.nonce))
    assert (stored.status, stored.body) == (202, b'{"state": "working"}')
    assert ("Set-Cookie", "a=1; Path=/") in stored.headers
    life = redis_server.client.ttl(LATE_KEY + ticket.nonce)
    assert (
        ticket.deadline - time.time() + 29 < life <= 55 + 31
    )  # as long as a front may wait for a hub


@pytest.mark.parametrize("front", REMOTE)
def test_a_held_client_is_no_error_in_the_log(offload_settings, monkeypatch, caplog, front):
    offload_settings({"ROOT_URLCONF": __name__}, BACKEND=front)
    monkeypatch.setattr(store, "write", lambda *_: True)
    # Not the handler itself: its signals close the connections of other tests.
    assert WSGIHandler().get_response(RequestFactory().get("/")).status_code in {200, 202, 418}
    assert caplog.text == ""


@pytest.mark.integration
def test_release_stores_and_wakes(offload_settings, redis_server, hold_id):
    offload_settings(BACKEND="accel", REDIS_URL=redis_server.url, ANSWER_TTL=60)
    with redis_server.client.pubsub(ignore_subscribe_messages=True) as channel:
        channel.subscribe("offload:released")
        channel.get_message(timeout=1)
        answers = {hold_id: JsonResponse({"a": 1}, status=400), "f" * 32: HttpResponse("b")}
        assert offload.release_many(answers) is True
        heard = [channel.get_message(timeout=1)["data"].decode() for _ in answers]
    assert heard == list(answers)
    stored = decode_answer(redis_server.client.get(ANSWER_KEY + hold_id))
    assert (stored.status, stored.body) == (400, b'{"a": 1}')
    assert 0 < redis_server.client.ttl(ANSWER_KEY + hold_id) <= 60


@pytest.mark.integration
def test_the_first_release_counts(offload_settings, redis_server, hold_id):
    """Also before the hold, where the second one would otherwise take the first one's place."""
    offload_settings(BACKEND="inline", REDIS_URL=redis_server.url)
    offload.release(hold_id, HttpResponse("first"))
    offload.release(hold_id, HttpResponse("second"))
    answer = offload.wait(hold_id, 5)
    assert answer is not None
    assert answer.content == b"first"


def test_nothing_to_release(offload_settings):
    offload_settings()
    assert offload.release_many({}) is True


@pytest.mark.integration
def test_release_without_redis_says_so_and_leaves_it_alone(offload_settings, hold_id, caplog):
    offload_settings(BACKEND="accel")
    assert offload.release(hold_id, HttpResponse()) is False
    assert offload.release(hold_id, HttpResponse()) is False
    assert len(caplog.records) == 1  # the second one was not even tried
    store._paused_until = 0.0
    assert offload.release(hold_id, HttpResponse()) is False
    assert len(caplog.records) == 2


@pytest.mark.integration
def test_hold_without_redis_is_still_handed_over(offload_settings, hold_id):
    offload_settings(BACKEND="accel")
    answer = through_middleware(offload.hold(hold_id, late=late()))
    assert ticket_of(answer).hold_id == hold_id


def test_unknown_name_of_the_package():
    with pytest.raises(AttributeError, match="no attribute 'park'"):
        _ = offload.park


@pytest.mark.integration
def test_an_answer_is_forgotten(offload_settings, redis_server, hold_id):
    offload_settings(BACKEND="accel", REDIS_URL=redis_server.url)
    assert offload.release(hold_id, JsonResponse({"name": "Ada"}))
    assert redis_server.client.exists(ANSWER_KEY + hold_id)
    assert offload.forget([hold_id])
    assert not redis_server.client.exists(ANSWER_KEY + hold_id)


@pytest.mark.integration
def test_without_redis_nothing_is_said_to_be_forgotten(offload_settings, hold_id):
    offload_settings(BACKEND="accel", REDIS_URL="redis://127.0.0.1:1/0")
    assert not offload.forget([hold_id])
    assert offload.forget([])
