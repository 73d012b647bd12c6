"""Turns by account: whose announcement the next free worker takes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import current_app

from parcels import tasks
from parcels.services import restored, wake
from parcels.tests.factories import AnnouncementFactory

QUEUE = "announce.postnl"


@pytest.fixture
def sent(redis_server: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the ids of the messages, oldest first; the broker is real and its queue is not."""
    client = redis.Redis.from_url(redis_server.url)
    for key in client.scan_iter("turns:*"):
        client.delete(key)
    messages: list[int] = []
    settings.BROKER_URL = redis_server.url
    monkeypatch.setattr(current_app, "send_task", lambda *_, args, **__: messages.extend(args))
    wake._quiet_until = 0.0
    wake._broker_at.cache_clear()
    return messages


def taken(messages: list[int]) -> list[int]:
    return wake.next_in_turn(QUEUE, len(messages)) or messages


@pytest.mark.integration
@pytest.mark.parametrize(("off", "place"), [([], 1), (["turns"], 100)])
def test_another_accounts_only_announcement_is_the_next_but_one(
    sent: list[int], settings: Any, off: list[str], place: int
) -> None:
    settings.DEMO, settings.FAULT_GUARDS_OFF = True, off
    for number in range(100):
        wake.send("announce", [number + 1], QUEUE, 1)
    wake.send("announce", [1000], QUEUE, 2)
    order = taken(sent)
    assert order.index(1000) == place
    assert sorted(order) == [*range(1, 101), 1000]  # each is taken once


@pytest.mark.integration
def test_each_queue_has_its_own_turns(sent: list[int]) -> None:
    wake.send("announce", [1], QUEUE, 1)
    wake.send("announce", [2], "announce.tortoise", 1)
    assert wake.next_in_turn("announce.tortoise", 7) == [2]
    assert wake.next_in_turn("announce.tortoise", 7) == []


@pytest.mark.integration
def test_what_is_woken_again_waits_once_and_keeps_its_place(sent: list[int]) -> None:
    for announcement, account in ((1, 1), (2, 1), (3, 2), (1, 1), (1, 1)):
        wake.send("announce", [announcement], QUEUE, account)
    assert taken(sent) == [1, 3, 2]


@pytest.mark.integration
def test_no_more_are_taken_than_there_is_room_for(sent: list[int]) -> None:
    for announcement, account in ((1, 1), (2, 1), (3, 2), (4, 3)):
        wake.send("announce", [announcement], QUEUE, account)
    assert [wake.next_in_turn(QUEUE, 3) for _ in range(3)] == [[1, 3, 4], [2], []]


@pytest.mark.integration
def test_while_a_bell_is_on_its_way_no_other_is_rung(sent: list[int]) -> None:
    def ring(announcement: int, queue: str = QUEUE) -> bool:
        return wake.send("announce", [announcement], queue, 1, bell=60_000)

    assert all(map(ring, (1, 2, 3)))
    assert ring(4, "announce.tortoise")  # each queue has its own
    assert sent == [1, 4]
    assert wake.send("announce", [2], QUEUE, 1)  # the sweeper's: a bell may be lost
    assert sent == [1, 4, 2]
    assert wake.next_in_turn(QUEUE, 2) == [1, 2]  # heard: 3 is left for the next round
    assert ring(5)
    assert sent == [1, 4, 2, 5]
    assert wake.next_in_turn(QUEUE, 9) == [3, 5]


@pytest.mark.integration
def test_no_bell_is_rung_for_a_worker_that_listens(
    sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ring(announcement: int) -> bool:
        return wake.send("announce", [announcement], QUEUE, 1, bell=60_000)

    assert wake.next_in_turn(QUEUE, 9, listens=True) == []
    assert all(map(ring, (1, 2)))
    assert sent == []
    assert wake.next_in_turn(QUEUE, 9, listens=True) == [1, 2]
    assert ring(3)
    assert sent == []
    assert wake.next_in_turn(QUEUE, 0) == []  # it stops, and leaves 3 to others
    assert ring(4)
    assert sent == [4]
    assert wake.next_in_turn(QUEUE, 2, listens=True) == [3, 4]  # as many as it wanted
    assert ring(5)
    assert sent == [4, 5]
    monkeypatch.setattr(wake, "LISTENS", 1)
    assert wake.next_in_turn(QUEUE, 9, listens=True) == [5]  # killed then
    time.sleep(0.05)
    assert ring(6)
    assert sent == [4, 5, 6]


@pytest.mark.integration
def test_a_bell_that_nobody_hears_is_rung_again(sent: list[int]) -> None:
    for announcement in (1, 2):
        wake.send("announce", [announcement], QUEUE, 1, bell=1)
        time.sleep(0.05)
    assert sent == [1, 2]


@pytest.mark.integration
@pytest.mark.django_db
def test_a_batch_is_one_message_in_its_order(
    sent: list[int], monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    rows = AnnouncementFactory.build_batch(45, account_id=1)
    for number, row in enumerate(rows, 1):
        row.pk = number
    messages: list[Sequence[int]] = []
    monkeypatch.setattr(current_app, "send_task", lambda *_, args, **__: messages.append(args))
    with django_capture_on_commit_callbacks(execute=True):
        wake.wake_after_commit(rows)
        wake.wake_after_commit(rows[:1])  # while the first message is on its way
    assert messages == [list(range(1, 46))]
    assert wake.next_in_turn(QUEUE, 50) == list(range(1, 46))


@pytest.mark.integration
def test_lists_that_were_lost_are_filled_again(sent: list[int], redis_server: Any) -> None:
    for number in (1, 2):
        wake.send("announce", [number], QUEUE, 1)
    redis.Redis.from_url(redis_server.url).delete(f"turns:{QUEUE}")
    assert wake.next_in_turn(QUEUE, 9) == []
    wake.send("announce", [3], QUEUE, 1)  # and the turns go on
    assert wake.next_in_turn(QUEUE, 9) == [1, 2, 3]


@pytest.mark.integration
def test_only_announcing_takes_turns(sent: list[int]) -> None:
    wake.send("void", [1], QUEUE, 1)
    assert wake.next_in_turn(QUEUE, 9) == []


def test_a_worker_asks_for_the_queue_that_its_message_came_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[tuple[str, Sequence[int]]] = []
    loop = SimpleNamespace(ring=lambda *given: begun.append(given))
    monkeypatch.setattr(tasks, "LOOP", loop)
    tasks.announce(5, 7)
    task: Any = tasks.announce  # its stub takes the request's fields for the task's own
    task.push_request(delivery_info={"routing_key": QUEUE})
    task.run(6)
    task.pop_request()
    assert begun == [("", (5, 7)), (QUEUE, (6,))]


@pytest.mark.integration
@pytest.mark.parametrize("there", [True, False])
def test_beside_another_broker_they_stand_in_the_guards_redis(
    sent: list[int], settings: Any, redis_server: Any, there: bool
) -> None:
    """Without that Redis messages are sent all the same, and taken in their order."""
    settings.BROKER_URL = "amqp://guest:guest@127.0.0.1:1//"
    settings.GUARDS_URL = redis_server.url if there else "redis://127.0.0.1:1/0"
    for announcement, account in ((1, 1), (2, 1), (3, 2)):
        assert wake.send("announce", [announcement], QUEUE, account)
    assert wake.next_in_turn(QUEUE, 9) == ([1, 3, 2] if there else [])
    assert sent == [1, 2, 3]
    assert restored.broker_identity() is None
