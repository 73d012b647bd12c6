"""Turns by account: whose announcement the next free worker takes."""

import time
import uuid
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery, current_app
from django.utils import timezone

from carriers.guards import CarrierGuards
from deploy.tests.waiting import until
from parcels import tasks
from parcels.models import Announcement, State
from parcels.services import carrier_guards, protect, restored, wake
from parcels.services.claim import prepare
from parcels.services.reconcile import reconcile
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
    sent: list[int], without: Callable[..., None], off: list[str], place: int
) -> None:
    without(*off)
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

    monkeypatch.setattr(wake, "LISTENS", 60_000)
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
@pytest.mark.parametrize(
    ("task", "queue", "bell"),
    [("announce", QUEUE, 0), ("announce", QUEUE, 1), ("deliver", "default", 0)],
)
def test_a_queue_that_no_worker_empties_gets_no_more_messages(
    sent: list[int],
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    redis_server: Any,
    task: str,
    queue: str,
    bell: int,
) -> None:
    app = Celery(broker=redis_server.url, set_as_current=False)
    app.conf.broker_transport_options = settings.CELERY_BROKER_TRANSPORT_OPTIONS
    monkeypatch.setattr(wake, "current_app", app)
    monkeypatch.setattr(wake, "FULL", 2)
    client = redis.Redis.from_url(redis_server.url)
    client.delete(queue)  # what other tests have left
    for number in (1, 2, 3):
        assert wake.send(task, [number], queue, 1, bell=bell)
        time.sleep(0.05)  # a bell is over
    assert client.llen(queue) == 2
    client.delete(queue)  # a worker has come
    if task == "announce":
        assert wake.next_in_turn(queue, 9) == [1, 2, 3]
    assert wake.send(task, [4], queue, 1, bell=bell)
    assert client.llen(queue) == 1
    client.delete(queue)
    app.close()


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
def test_what_has_a_slot_comes_before_all_that_wait(sent: list[int]) -> None:
    for number in (5, 6, 7, 8):
        wake.send("announce", [number], QUEUE, 1)
    wake.send("announce", [4, 7], QUEUE, 1, first=True)
    assert wake.next_in_turn(QUEUE, 9) == [4, 7, 5, 6, 8]


@pytest.fixture
def guards(
    sent: list[int], settings: Any, monkeypatch: pytest.MonkeyPatch, redis_server: Any
) -> CarrierGuards:
    """Return a carrier's, of whose five slots an account may take four, in a real Redis."""
    client = redis.Redis.from_url(redis_server.url)
    monkeypatch.setattr(carrier_guards, "_client", lambda: client)
    settings.CARRIER_GUARD_PREFIX = f"{uuid.uuid4().hex}:"
    postnl = settings.CARRIERS["postnl"] | {"bulkhead": 5}
    settings.CARRIERS = settings.CARRIERS | {"postnl": postnl}
    carrier_guards.forget()
    return carrier_guards.guards_of("postnl")


@pytest.mark.integration
@pytest.mark.django_db
def test_a_new_announcement_does_not_overtake_those_that_were_turned_away(
    guards: CarrierGuards, sent: list[int]
) -> None:
    first = AnnouncementFactory.create()
    same = {"parcel__account": first.account}
    rows = [first, *(AnnouncementFactory.create(**same) for _ in range(6))]
    begun = prepare([row.pk for row in rows[:6]])
    assert [job.announcement for job in begun] == rows[:4]
    wake.send("announce", [rows[5].pk], QUEUE, first.account_id)
    sent.clear()
    protect.leave([(begun[0], None, 0.0)])
    assert until(lambda: sent, "the next one's wake-up") == [rows[4].pk]
    assert prepare([rows[6].pk]) == []
    assert prepare([rows[5].pk]) == []
    assert [job.announcement for job in prepare(wake.next_in_turn(QUEUE, 1))] == [rows[4]]
    assert guards.in_flight() == 4


@pytest.mark.integration
@pytest.mark.django_db
def test_an_unknown_one_has_its_turn_too(
    guards: CarrierGuards, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[tuple[str, tuple[int, ...]]] = []
    monkeypatch.setattr(
        current_app, "send_task", lambda task, args, **_: woken.append((task, tuple(args)))
    )
    unknown = AnnouncementFactory.create(state=State.UNKNOWN, sent_at=timezone.now())
    same = {"parcel__account": unknown.account}
    rows = [AnnouncementFactory.create(**same) for _ in range(4)]
    (*_, last) = prepare([row.pk for row in rows])
    reconcile(unknown.pk)
    assert Announcement.objects.get(pk=unknown.pk).lease_until is None
    protect.leave([(last, None, 0.0)])
    until(lambda: woken, "its wake-up")
    assert woken == [("parcels.tasks.reconcile", (unknown.pk,))]


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
