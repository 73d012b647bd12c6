import json
import time

import pytest
from django.test import Client

from offload import conf, keys, questions
from offload.fronts import store_late
from offload.keys import ANSWERS_PATH
from offload.tests import outcomes, releases
from offload.tests.processes import SECRET


@pytest.fixture(autouse=True)
def settled(offload_settings):
    offload_settings(BACKEND="poll")
    outcomes.known.clear()
    outcomes.asked.clear()


def ask(body, *, secret=SECRET, now=None, method="post"):
    authorization = questions.sign_question(secret, body, now=now or time.time())
    send = getattr(Client(), method)
    headers = {"Authorization": authorization}
    return send(ANSWERS_PATH, body, content_type="application/json", headers=headers)


def test_signed_question_is_answered(hold_id):
    outcomes.known[hold_id] = 7
    body = questions.encode_question([hold_id, "f" * 32], final_only=True)
    known = questions.decode_answers(ask(body).content)
    assert list(known) == [hold_id]
    assert json.loads(known[hold_id].body) == {"final": 7}


def test_late_answers_on_demand(hold_id):
    body = questions.encode_question([hold_id], final_only=False)
    assert questions.decode_answers(ask(body).content)[hold_id].status == 202


@pytest.mark.parametrize(
    "wrong",
    [{"secret": "t" * 40}, {"now": 1000.0}, {"method": "get"}, {"method": "put"}],
    ids=["forged", "old", "GET", "PUT"],
)
def test_who_may_not_ask_gets_404(hold_id, wrong):
    body = questions.encode_question([hold_id], final_only=True)
    if wrong.get("method") == "get":
        assert Client().get(ANSWERS_PATH).status_code == 404
    else:
        assert ask(body, **wrong).status_code == 404
    assert outcomes.asked == []


def test_a_hub_with_the_former_secret_is_answered(offload_settings, hold_id):
    body = questions.encode_question([hold_id], final_only=False)
    offload_settings(BACKEND="poll", SECRET="n" * 40)
    assert ask(body).status_code == 404
    offload_settings(BACKEND="poll", SECRET="n" * 40, SECRET_FALLBACKS=[SECRET])
    assert ask(body).status_code == 200


@pytest.mark.integration
@pytest.mark.parametrize("place", ["poll", "late"])
def test_who_waits_by_a_ticket_of_the_former_secret_is_answered(offload_settings, hold_id, place):
    outcomes.known[hold_id] = 7
    text = releases.ticket(hold_id, wait=-1)
    offload_settings(BACKEND="poll", SECRET="n" * 40, SECRET_FALLBACKS=[SECRET])
    assert Client().get(f"/_offload/{place}/{text}").status_code == 200


@pytest.mark.integration
@pytest.mark.parametrize("place", ["poll", "late"])
def test_a_front_can_tell_a_whole_answer_from_one_that_is_cut(hold_id, place):
    """By the uwsgi protocol the end of a connection is the answer's end, too."""
    outcomes.known[hold_id] = 7
    answer = Client().get(f"/_offload/{place}/{releases.ticket(hold_id, wait=-1)}")
    assert answer["Content-Length"] == str(len(answer.content))


def test_unsigned_question_gets_404(hold_id):
    body = questions.encode_question([hold_id], final_only=True)
    assert Client().post(ANSWERS_PATH, body, content_type="application/json").status_code == 404


def test_signed_nonsense_gets_400():
    assert ask(b"{}").status_code == 400


def poll(text):
    return Client().get(f"/_offload/poll/{text}")


@pytest.mark.integration
def test_poll_until_released(offload_settings, redis_server, hold_id):
    offload_settings(BACKEND="poll", REDIS_URL=redis_server.url)
    text = releases.ticket(hold_id, redis_client=redis_server.client)
    waiting = poll(text)
    assert (waiting.status_code, waiting["Retry-After"]) == (204, "1")
    assert "Content-Length" not in waiting  # which a 204 may not have
    releases.store(redis_server.client, hold_id, releases.answer("refused", status=400))
    answer = poll(text)
    assert (answer.status_code, answer.json()) == (400, {"final": "refused"})
    assert answer["X-Frame-Options"] == "DENY"
    assert sorted(answer.cookies) == ["a", "b"]
    assert "Location" not in answer


@pytest.mark.integration
def test_poll_asks_the_app_only_for_what_redis_has_lost(offload_settings, redis_server, hold_id):
    offload_settings(BACKEND="poll", REDIS_URL=redis_server.url)
    text = releases.ticket(hold_id, redis_client=redis_server.client)
    outcomes.known[hold_id] = 7
    assert (poll(text).status_code, outcomes.asked) == (204, [])
    redis_server.client.flushall()
    assert poll(text).json() == {"final": 7}


@pytest.mark.integration
def test_poll_asks_the_app_for_what_redis_has_and_can_t_be_read(
    offload_settings, redis_server, hold_id
):
    offload_settings(BACKEND="poll", REDIS_URL=redis_server.url)
    text = releases.ticket(hold_id, redis_client=redis_server.client)
    redis_server.client.set(f"{keys.ANSWER_KEY}{hold_id}", b"?")
    outcomes.known[hold_id] = 7
    assert poll(text).json() == {"final": 7}


@pytest.mark.integration
def test_poll_after_the_deadline(offload_settings, redis_server, hold_id):
    offload_settings(BACKEND="poll", REDIS_URL=redis_server.url)
    text = releases.ticket(hold_id, wait=-1, redis_client=redis_server.client)
    answer = poll(text)
    assert (answer.status_code, answer["Location"]) == (202, "/outcome")


@pytest.mark.integration
def test_poll_without_redis(hold_id):
    text = releases.ticket(hold_id)
    assert poll(text).status_code == 204
    outcomes.known[hold_id] = 7
    assert poll(text).json() == {"final": 7}


@pytest.mark.integration
@pytest.mark.parametrize("wait", [-1, -1000], ids=["over", "expired"])
def test_poll_past_the_deadline_without_redis(hold_id, wait):
    assert poll(releases.ticket(hold_id, wait=wait)).json() == {"late": hold_id}


def test_poll_with_a_forged_ticket(hold_id):
    assert poll(releases.ticket(hold_id, secret="t" * 40)).status_code == 404


def late(name):
    return Client().get(f"/_offload/late/{name}")


def fail(*_, **__):
    raise OSError("no database")


@pytest.mark.integration
@pytest.mark.parametrize("ask", [poll, late])
def test_an_app_that_fails_takes_no_late_answer_away(
    offload_settings, redis_server, hold_id, monkeypatch, caplog, ask
):
    offload_settings(BACKEND="poll", REDIS_URL=redis_server.url)
    monkeypatch.setattr(outcomes, "resolve", fail)
    text = releases.ticket(hold_id, wait=-1, redis_client=redis_server.client)
    assert ask(text).status_code == 202
    assert "no database" in caplog.text


@pytest.mark.integration
@pytest.mark.parametrize("ask", [poll, late])
def test_an_unreadable_late_answer_takes_no_released_one_away(
    offload_settings, redis_server, hold_id, ask
):
    offload_settings(BACKEND="poll", REDIS_URL=redis_server.url)
    text = releases.ticket(hold_id, redis_client=redis_server.client)
    (kept,) = redis_server.client.keys(f"{keys.LATE_KEY}*")
    redis_server.client.set(kept, b"?")
    releases.store(redis_server.client, hold_id, releases.answer("refused", status=400))
    assert ask(text).json() == {"final": "refused"}


@pytest.mark.integration
def test_who_lost_its_hub_is_answered_at_once(offload_settings, redis_server, hold_id):
    offload_settings(BACKEND="accel", REDIS_URL=redis_server.url)
    text = releases.ticket(hold_id, redis_client=redis_server.client)
    assert late(text).status_code == 202
    releases.store(redis_server.client, hold_id, releases.answer("refused", status=400))
    answer = late(text)
    assert (answer.status_code, answer.json()) == (400, {"final": "refused"})


@pytest.mark.integration
def test_a_front_that_waited_for_a_silent_hub_is_answered(offload_settings, redis_server, hold_id):
    """Its time-out is over the longest wait there is, and this client's may have been short."""
    offload_settings(BACKEND="uwsgi", REDIS_URL=redis_server.url)
    text = releases.ticket(hold_id, redis_client=redis_server.client, wait=1)
    store_late(text, releases.answer("late", status=202), request_id="b" * 32)
    known = redis_server.client.ttl(keys.REQUEST_KEY + "b" * 32)
    assert known > conf.current().answer_ttl
    assert late(releases.ticket(hold_id, wait=-100)).status_code == 202


@pytest.mark.integration
def test_who_lost_its_hub_is_found_by_the_fronts_name_for_the_request(
    offload_settings, redis_server, hold_id
):
    offload_settings(BACKEND="uwsgi", REDIS_URL=redis_server.url)
    text = releases.ticket(hold_id, redis_client=redis_server.client)
    store_late(text, releases.answer("late", status=202), request_id="c" * 32)
    assert late("c" * 32).status_code == 202
    releases.store(redis_server.client, hold_id, releases.answer("there"))
    assert late("c" * 32).json() == {"final": "there"}


@pytest.mark.integration
@pytest.mark.parametrize("name", ["d" * 32, "e" * 108, "x"], ids=["request", "ticket", "neither"])
def test_where_nothing_was_held_the_front_says_so(offload_settings, redis_server, name):
    offload_settings(BACKEND="uwsgi", REDIS_URL=redis_server.url)
    assert late(name).status_code == 502


@pytest.mark.parametrize("backend", ["asgi", "inline", "async"])
@pytest.mark.parametrize("place", ["poll", "late"])
def test_without_a_front_nobody_is_answered_by_a_ticket(offload_settings, hold_id, place, backend):
    offload_settings(BACKEND=backend)
    outcomes.known[hold_id] = 7
    text = releases.ticket(hold_id)
    assert Client().get(f"/_offload/{place}/{text}").status_code == 404
    assert outcomes.asked == []
