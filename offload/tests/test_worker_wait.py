import threading
import time
from types import SimpleNamespace

import pytest
from django.db import connection, connections
from django.http import HttpResponse

import offload
from offload import inline
from offload.tests import outcomes, releases
from offload.tests.processes import until

pytestmark = pytest.mark.integration

LOST_WAKE_UP = 2.0 + 1.0


class Waiter(threading.Thread):
    """A worker that waits for one hold."""

    def __init__(self, hold_id, seconds):
        super().__init__()
        self.hold_id = hold_id
        self.seconds = seconds
        self.answer = None
        self.start()

    def run(self):
        self.answer = offload.wait(self.hold_id, self.seconds)

    def result(self):
        self.join(20)
        assert not self.is_alive()
        return self.answer and self.answer.content


@pytest.fixture(autouse=True)
def settled(offload_settings, redis_server):
    offload_settings(REDIS_URL=redis_server.url)
    outcomes.known.clear()
    outcomes.asked.clear()


def waiting(redis_server, hold_id, seconds=20):
    waiter = Waiter(hold_id, seconds)
    listening(redis_server, hold_id)
    return waiter


def listening(redis_server, hold_id):
    channel = f"offload:released:{hold_id}"
    until(lambda: dict(redis_server.client.pubsub_numsub(channel))[channel.encode()])


def wake(redis_server, hold_id):
    redis_server.client.publish(f"offload:released:{hold_id}", hold_id)


def test_release_wakes_the_worker(redis_server, hold_id):
    waiter = waiting(redis_server, hold_id)
    start = time.monotonic()
    offload.release(hold_id, HttpResponse("released"))
    assert waiter.result() == b"released"
    assert time.monotonic() - start < 1
    assert outcomes.asked == []


def test_released_before(redis_server, hold_id):
    offload.release(hold_id, HttpResponse("released"))
    assert Waiter(hold_id, 10).result() == b"released"


def test_in_vain(hold_id):
    start = time.monotonic()
    assert offload.wait(hold_id, 0.3) is None
    assert time.monotonic() - start < 2


def test_last_question_at_the_end(hold_id):
    outcomes.known[hold_id] = 7
    assert Waiter(hold_id, 0.3).result() == b'{"final": 7}'


def test_an_app_that_fails_has_no_answer(hold_id, monkeypatch, caplog):
    def fail(*_, **__):
        raise RuntimeError("no database")

    monkeypatch.setattr(outcomes, "resolve", fail)
    assert offload.wait(hold_id, 0.1) is None
    assert "no database" in caplog.text


def test_lost_publish(redis_server, hold_id):
    waiter = waiting(redis_server, hold_id)
    start = time.monotonic()
    releases.store(redis_server.client, hold_id)
    assert waiter.result() == releases.answer().body
    assert time.monotonic() - start < LOST_WAKE_UP


def test_lost_key(redis_server, hold_id):
    waiter = waiting(redis_server, hold_id)
    outcomes.known[hold_id] = 7
    wake(redis_server, hold_id)
    assert waiter.result() == b'{"final": 7}'


def test_flushall(redis_server, hold_id):
    waiter = waiting(redis_server, hold_id)
    time.sleep(0.2)  # it has read the epoch
    outcomes.known[hold_id] = 7
    start = time.monotonic()
    redis_server.client.flushall()
    assert waiter.result() == b'{"final": 7}'
    assert time.monotonic() - start < LOST_WAKE_UP


@pytest.mark.parametrize("trouble", ["kill", "freeze"])
def test_redis_away(redis_server, hold_id, trouble):
    waiter = waiting(redis_server, hold_id)
    getattr(redis_server, trouble)()
    outcomes.known[hold_id] = 7
    start = time.monotonic()
    assert waiter.result() == b'{"final": 7}'
    assert time.monotonic() - start < LOST_WAKE_UP + 1


def test_what_was_not_released_while_redis_came_back_is_asked_for(redis_server, hold_id):
    """A process that has just failed to release leaves Redis alone for a moment."""
    waiter = waiting(redis_server, hold_id)
    redis_server.kill()
    until(lambda: outcomes.asked, what="the first question")
    redis_server.start()
    listening(redis_server, hold_id)
    outcomes.known[hold_id] = 7
    start = time.monotonic()
    assert waiter.result() == b'{"final": 7}'
    assert time.monotonic() - start < LOST_WAKE_UP + 1


def test_without_redis_a_wait_sleeps_no_longer_than_it_may_last(redis_server, hold_id, monkeypatch):
    redis_server.kill()
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        time.sleep(seconds)

    clock = SimpleNamespace(monotonic=time.monotonic, time=time.time, sleep=sleep)
    monkeypatch.setattr(inline, "time", clock)
    assert offload.wait(hold_id, 0.3) is None
    assert slept
    assert max(slept) <= 0.3


def test_as_many_wait_as_the_process_has_threads(redis_server, hold_id):
    """A client of redis-py has a hundred connections, unless told otherwise."""
    waiters = [Waiter(hold_id, 20) for _ in range(119)] + [waiting(redis_server, hold_id)]
    offload.release(hold_id, HttpResponse("released"))
    assert {waiter.result() for waiter in waiters} == {b"released"}
    assert outcomes.asked == []


@pytest.fixture
def closing(monkeypatch):
    """RESOLVE uses the database; return the threads that asked it, and that closed connections."""
    asked, closed = [], []

    def resolve(*_, **__):
        connection.ensure_connection()
        asked.append(threading.get_ident())
        return {}

    def close(_):
        closed.append(threading.get_ident())

    monkeypatch.setattr(outcomes, "resolve", resolve)
    monkeypatch.setattr(type(connections["default"]), "close", close)
    return asked, closed


@pytest.mark.django_db(transaction=True)
def test_who_asked_the_app_waits_on_without_a_database_connection(hold_id, closing):
    assert offload.wait(hold_id, 0.1) is None
    asked, closed = closing
    assert asked == closed != [threading.get_ident()]


@pytest.mark.django_db
def test_in_a_transaction_the_app_is_asked_within_it(hold_id, closing):
    """A test's rows are visible nowhere else."""
    assert offload.wait(hold_id, 0.1) is None
    assert closing == ([threading.get_ident()], [])


def test_an_app_that_hangs_has_no_answer(hold_id, monkeypatch, caplog):
    asked = threading.Event()
    monkeypatch.setattr(outcomes, "resolve", lambda *_, **__: asked.wait(20))
    monkeypatch.setattr("offload.inline.ASK_TIMEOUT", 0.2, raising=False)
    start = time.monotonic()
    assert offload.wait(hold_id, 0.1) is None
    asked.set()
    assert time.monotonic() - start < 5
    assert hold_id in caplog.text


def test_redis_killed_and_back(redis_server, hold_id):
    waiter = waiting(redis_server, hold_id)
    redis_server.kill()
    redis_server.start()
    releases.store(redis_server.client, hold_id)
    assert waiter.result() == releases.answer().body
