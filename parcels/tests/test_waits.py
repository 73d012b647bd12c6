"""Threads that wait, shared between accounts; and what a client gets who finds none."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import OperationalError
from django.http import HttpResponse

import offload
from parcels import metrics
from parcels.models import Account, Announcement, Parcel, State
from parcels.representation import Question
from parcels.services import accept, answering, holds, protect, waits
from parcels.services.awaiting import PendingResponse, finish
from parcels.services.holds import Asked
from parcels.services.waits import Waits
from parcels.statuses import Status
from parcels.tests.factories import AnnouncementFactory
from parcels.tests.requests import Shop, body

Occupy = Callable[[int, int, bool], int]


@pytest.fixture
def occupy(monkeypatch: pytest.MonkeyPatch) -> Occupy:
    """Have so many threads of ten try to wait for an account; return how many do, until the end."""
    monkeypatch.setattr(waits, "WAITS", Waits(10))
    kept: list[Any] = []

    def occupy(account_id: int, times: int, buys: bool) -> int:
        entered: list[bool] = []

        def enter() -> None:
            place = waits.thread_to_wait(account_id, buys=buys)
            kept.append(place)
            entered.append(place.__enter__())

        for _ in range(times):
            thread = threading.Thread(target=enter)
            thread.start()
            thread.join()
        return sum(entered)

    return occupy


def test_a_worker_that_waits_is_counted() -> None:
    busy = metrics.WORKERS.labels("waiting")._value
    before = busy.get()
    with metrics.waiting():
        assert busy.get() == before + 1
    assert busy.get() == before


def test_reads_leave_half_of_the_threads(occupy: Occupy) -> None:
    assert occupy(1, 20, False) == 5
    assert occupy(2, 20, False) == 3  # and so on: there is always one left
    assert occupy(3, 1, False) == 1


def test_an_account_alone_buys_in_all_threads(occupy: Occupy) -> None:
    assert occupy(1, 10, True) == 10


def test_an_account_that_is_not_alone_leaves_half(occupy: Occupy) -> None:
    assert occupy(2, 1, True) == 1
    assert occupy(1, 20, True) == 5
    assert occupy(2, 1, True) == 1


def test_an_account_is_alone_again_after_a_minute(
    occupy: Occupy, monkeypatch: pytest.MonkeyPatch
) -> None:
    occupy(2, 1, False)
    later = waits.monotonic() + 61
    monkeypatch.setattr(waits, "monotonic", lambda: later)
    assert occupy(1, 9, True) == 9


def test_threads_are_given_back() -> None:
    all_of_them = Waits(2)
    for _ in range(5):
        with all_of_them.enter(1, buys=False) as entered, all_of_them.enter(1, buys=True) as again:
            assert entered
            assert again  # it has one already
    assert not all_of_them._waiting


def test_where_the_number_is_unknown_nothing_is_bound() -> None:
    unknown = Waits(0)
    assert all(unknown.enter(1, buys=False).__enter__() for _ in range(1000))


@pytest.mark.django_db
@pytest.mark.parametrize(("off", "waited"), [([], 0), (["turns"], 1)])
def test_a_read_that_finds_no_thread_is_answered_at_once(
    shop: Shop,
    occupy: Occupy,
    monkeypatch: pytest.MonkeyPatch,
    without: Callable[..., None],
    off: list[str],
    waited: int,
) -> None:
    without(*off)
    seconds: list[float] = []
    monkeypatch.setattr(offload, "wait", lambda _, left: seconds.append(left))
    row = AnnouncementFactory.create(parcel__account=shop.account)
    occupy(shop.account.pk, 10, False)
    answer = shop.get(f"parcels/{row.parcel_id}?wait=120")
    assert (answer.status_code, answer.json()["parcel"]["status"]["id"]) == (200, 1001)
    assert answer["Retry-After"]
    assert len(seconds) == waited


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("off", "status"), [([], 202), (["turns"], 200)])
def test_a_label_that_finds_no_thread_is_queued(
    shop: Shop,
    occupy: Occupy,
    monkeypatch: pytest.MonkeyPatch,
    no_broker: list[tuple[str, int, str]],
    without: Callable[..., None],
    off: list[str],
    status: int,
) -> None:
    without(*off)
    begun: list[int] = []
    monkeypatch.setattr(answering, "announce", begun.append)
    monkeypatch.setattr(answering, "waiting_announcements", lambda _: [])
    occupy(0, 1, True)
    occupy(shop.account.pk, 10, True)
    payload = {"parcel": body(request_label=True, shipment={"id": 8})}
    cut_short = metrics.NOT_WAITED.labels("buys")._value.get
    before = cut_short()
    answer = shop.post("parcels", payload)
    assert cut_short() - before == (status == 202)
    assert answer.status_code == status
    assert answer.json()["parcel"]["status"]["id"] == Status.BEING_ANNOUNCED
    assert len(no_broker) + len(begun) == 1
    assert bool(no_broker) is (status == 202)


@pytest.mark.django_db
@pytest.mark.parametrize("seconds", [1, 30])
def test_no_call_is_made_for_a_client_that_waits_for_less_time(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, settings: Any, seconds: int
) -> None:
    """Of the thirty something has passed when its parcel is read."""
    settings.CARRIER_CALL_DEADLINE = 30
    monkeypatch.setattr(accept, "announce_here", pytest.fail)
    monkeypatch.setattr(offload, "wait", lambda *_: None)
    payload = {"parcel": body(request_label=True, shipment={"id": 8})}
    assert shop.post("parcels", payload, Prefer=f"wait={seconds}").status_code == 202


@pytest.mark.django_db(transaction=True)
def test_a_batch_is_answered_when_the_clients_time_is_over(
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
    no_broker: list[tuple[str, int, str]],
) -> None:
    """Each call is within its deadline; all of them are longer than the client waits."""
    settings.CARRIER_CALL_DEADLINE = 30
    begun: list[int] = []

    def call(announcement_id: int) -> None:
        begun.append(announcement_id)
        Announcement.objects.filter(pk=announcement_id).update(state=State.ANNOUNCED)

    monkeypatch.setattr(answering, "announce", call)
    monkeypatch.setattr(answering, "monotonic", lambda: time.monotonic() + 30 * len(begun))
    monkeypatch.setattr(ThreadPoolExecutor, "map", lambda _, *given: map(*given))
    monkeypatch.setattr(offload, "wait", lambda *_: None)
    each = body(request_label=True, shipment={"id": 8})
    assert shop.post("parcels", {"parcels": [each] * 5}, Prefer="wait=100").status_code == 202
    left = Announcement.objects.filter(state=State.PENDING).values_list("pk", flat=True)
    assert (len(begun), len(left)) == (3, 2)  # begun with 100, 70 and 40 seconds left
    assert sorted(woken for _, woken, _ in no_broker) == sorted(left)


async def test_an_event_loop_begins_no_call_that_may_outlast_the_clients_time(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.CARRIER_CALL_DEADLINE = 30
    begun: list[int] = []

    async def call(announcement_id: int) -> None:
        begun.append(announcement_id)

    asked = Asked(Account(), Question([], "", ""), until=time.monotonic() + 100)
    monkeypatch.setattr(answering, "announce_async", call)
    monkeypatch.setattr(answering, "monotonic", lambda: time.monotonic() + 30 * len(begun))
    monkeypatch.setattr(answering, "_answer_announced", lambda *_: HttpResponse(status=202))
    await answering._announce_in_loop(asked, asked.question, range(5))
    assert begun == [0, 1, 2]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("holds_clients", [True, False])
def test_a_carrier_that_is_out_keeps_no_other_of_the_batch_from_its_worker(
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    no_broker: list[tuple[str, int, str]],
    holds_clients: bool,
) -> None:
    monkeypatch.setattr(protect, "carriers_out", lambda: {"tortoise"})
    monkeypatch.setattr(offload, "holds_clients", lambda: holds_clients)
    batch = [body(request_label=True, shipment={"id": each}) for each in (8, 10)]
    assert shop.post("parcels", {"parcels": batch}).status_code == 202
    assert {carrier for _, _, carrier in no_broker} == {"postnl", "tortoise"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("status", "answered"), [(Status.READY_TO_SEND, 200), (Status.ANNOUNCEMENT_FAILED, 400)]
)
def test_an_outcome_whose_release_is_lost_is_no_late_answer(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, settings: Any, status: int, answered: int
) -> None:
    """Redis was away: at the end of the wait the client gets what it would have got."""
    settings.CARRIER_CALL_DEADLINE = 30  # no call here; and a busy machine comes to the wait
    said = {"status": status, "carrier_error": "no such street", "tracking_number": "3S1"}
    monkeypatch.setattr(offload, "wait", lambda *_: Parcel.objects.update(**said) and None)
    payload = {"parcel": body(request_label=True, shipment={"id": 8})}
    answer = shop.post("parcels?errors=verbose-carrier", payload, Prefer="wait=29")
    assert answer.status_code == answered
    assert answer.json().get("error", {"code": 200})["code"] == answered
    assert "Location" not in answer


def away(*_: Any) -> None:
    raise OperationalError("the connection was lost")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("announce", [away, lambda _: None], ids=["away", "well"])
def test_a_label_that_is_stored_is_late_and_no_error(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, announce: Any
) -> None:
    """An error would have the client repeat it: without a key or reference, a second label."""
    monkeypatch.setattr(answering, "announce", announce)
    monkeypatch.setattr(answering, "waiting_announcements", away)
    answer = shop.post("parcels", {"parcel": body(request_label=True, shipment={"id": 8})})
    assert answer.status_code == 202
    assert answer["Location"].endswith(f"/{Parcel.objects.get().pk}")


@pytest.mark.django_db(transaction=True)
def test_a_batch_waits_for_what_could_not_be_announced_here(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, no_broker: list[tuple[str, int, str]]
) -> None:
    monkeypatch.setattr(answering, "announce", away)
    waited: list[str] = []
    monkeypatch.setattr(offload, "wait", lambda hold_id, _: waited.append(hold_id))
    each = body(request_label=True, shipment={"id": 8})
    assert shop.post("parcels", {"parcels": [each, each]}).status_code == 202
    assert (len(no_broker), len(waited)) == (2, 1)


@pytest.mark.django_db(transaction=True)
def test_a_wait_that_ends_without_the_database_is_late_and_no_error(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, no_broker: list[tuple[str, int, str]]
) -> None:
    parcel = shop.post("parcels", {"parcel": body(shipment={"id": 8})}).json()["parcel"]["id"]
    monkeypatch.setattr(offload, "wait", lambda *_: None)
    monkeypatch.setattr(holds, "in_order", away)
    answer = shop.put("parcels", {"parcel": {"id": parcel, "request_label": True}})
    assert answer.status_code == 202


@pytest.mark.django_db(transaction=True)
def test_a_batch_without_threads_is_late_and_no_error(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, no_broker: list[tuple[str, int, str]]
) -> None:
    """Its parcels are stored: a client that got an error would buy again."""
    monkeypatch.setattr(offload, "wait", lambda *_: None)
    monkeypatch.setattr(ThreadPoolExecutor, "map", exhausted)
    each = body(request_label=True, shipment={"id": 8})
    assert shop.post("parcels", {"parcels": [each, each]}).status_code == 202
    assert len(no_broker) == 2


def exhausted(*_: Any) -> None:
    raise RuntimeError("can't start new thread")


async def test_a_coroutine_that_cannot_go_on_answers_late() -> None:
    async def lost() -> HttpResponse:
        raise OperationalError("the connection was lost")

    late = HttpResponse(status=202)
    assert await finish(PendingResponse(lost, late)) is late


@pytest.mark.django_db
def test_a_front_that_holds_clients_needs_no_bound(
    occupy: Occupy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offload, "holds_clients", lambda: True)
    assert occupy(1, 20, False) == 20
