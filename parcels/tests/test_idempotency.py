"""Idempotency-Key: the same request again makes nothing new, whatever became of the first."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from parcels.models import Announcement, IdempotencyKey, Parcel, State
from parcels.openapi.operations import OPERATIONS
from parcels.services import idempotency
from parcels.services.carrier_guards import guards_of
from parcels.statuses import Status
from parcels.tests.requests import Shop, body

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]
ASYNC = {"parcel": body(shipment=8, request_label_async=True)}
KEY = {"Idempotency_Key": "order-1"}


def test_the_same_key_and_body_make_one_parcel(shop: Shop) -> None:
    first = shop.post("parcels", ASYNC, **KEY)
    again = shop.post("parcels", ASYNC, **KEY)
    assert first.status_code == again.status_code == 200
    assert first.content == again.content
    assert Parcel.objects.count() == Announcement.objects.count() == 1


def test_without_a_key_two_are_two(shop: Shop) -> None:
    shop.post("parcels", ASYNC)
    shop.post("parcels", ASYNC)
    assert Parcel.objects.count() == 2


def test_a_replay_shows_what_became_of_it(shop: Shop) -> None:
    shop.post("parcels", ASYNC, **KEY)
    Parcel.objects.update(status=Status.READY_TO_SEND, tracking_number="3S1")
    Announcement.objects.update(state=State.ANNOUNCED)
    again = shop.post("parcels", ASYNC, **KEY)
    assert again.json()["parcel"]["status"]["id"] == 1000
    assert "Retry-After" not in again


SYNC = {"parcel": body(shipment=8, request_label=True)}


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [("wait=0", "respond-async", 200), ("respond-async", "wait=0", 202)],
)
def test_a_repetition_chooses_anew_whether_it_waits(
    shop: Shop, first: str, second: str, status: int
) -> None:
    made = shop.post("parcels", SYNC, **KEY, Prefer=first)
    again = shop.post("parcels", SYNC, **KEY, Prefer=second)
    assert again.status_code == status
    assert again.json() == made.json()
    assert Announcement.objects.count() == 1


@pytest.mark.parametrize("flag", ["request_label", "request_label_async"])
def test_a_repetition_says_too_that_it_does_not_wait(shop: Shop, flag: str) -> None:
    order = {"parcel": body(shipment=8, **{flag: True})}
    for _ in range(2):
        answer = shop.post("parcels", order, **KEY, Prefer="respond-async")
        assert answer["Preference-Applied"] == "respond-async"
    stored = {"parcel": body()}
    for _ in range(2):  # there is no label to be answered without
        answer = shop.post("parcels", stored, Idempotency_Key="order-2", Prefer="respond-async")
        assert "Preference-Applied" not in answer


def test_another_body_is_422(shop: Shop) -> None:
    shop.post("parcels", ASYNC, **KEY)
    other = shop.post("parcels", {"parcel": body(name="Another")}, **KEY)
    assert other.status_code == 422
    assert other.json()["error"]["code"] == 422
    assert Parcel.objects.count() == 1


def test_another_query_is_422(shop: Shop) -> None:
    shop.post("parcels", ASYNC, **KEY)
    assert shop.post("parcels?errors=verbose", ASYNC, **KEY).status_code == 422


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("by", "order"),
    [(KEY, {"parcel": body()}), ({}, {"parcel": body(external_reference="order-1")})],
    ids=["key", "reference"],
)
def test_a_commit_whose_answer_is_lost_says_how_to_repeat(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, by: dict[str, str], order: Any
) -> None:
    """The database has stored it, and the connection breaks: nobody here knows."""
    commit = connection._commit  # type: ignore[attr-defined] # not in the stubs

    def lost() -> None:
        commit()
        raise OperationalError("the connection was lost")

    with monkeypatch.context() as breaking:
        breaking.setattr(connection, "_commit", lost)
        answer = shop.post("parcels", order, **by)
    said = answer.json()["error"]["message"]
    assert (answer.status_code, Parcel.objects.count()) == (503, 1)
    assert "Nothing was stored" not in said
    assert "the same Idempotency-Key or external_reference" in said
    assert shop.post("parcels", order, **by).json()["parcel"]["id"] == Parcel.objects.get().pk


def test_other_routes_ignore_a_key_and_the_document_says_so(shop: Shop) -> None:
    hook = {"webhook": {"url": "https://receiver.example/hook"}}
    made = {shop.post("webhooks", hook, **KEY).json()["webhook"]["id"] for _ in range(2)}
    assert len(made) == 2
    told = {name: [p for p in entry.parameters if p["name"] == "Idempotency-Key"]
            for name, entry in OPERATIONS.items()}  # fmt: skip
    assert [name for name, found in told.items() if found] == [("parcels", "POST")]
    assert "other routes ignore it" in told["parcels", "POST"][0]["description"]


@pytest.mark.parametrize("key", ["", "x" * 256, "schlüssel", "a\tb"])
def test_a_bad_key_is_400(shop: Shop, key: str) -> None:
    response = shop.post("parcels", ASYNC, Idempotency_Key=key)
    assert response.status_code == 400
    assert "Idempotency-Key" in response.json()["error"]["message"]
    assert not Parcel.objects.exists()


def test_the_longest_key_is_taken(shop: Shop) -> None:
    assert shop.post("parcels", ASYNC, Idempotency_Key="~ " + "x" * 253).status_code == 200


def test_a_refused_request_does_not_use_its_key_up(shop: Shop) -> None:
    assert shop.post("parcels", {"parcel": body(name="")}, **KEY).status_code == 400
    assert not IdempotencyKey.objects.exists()
    assert shop.post("parcels", ASYNC, **KEY).status_code == 200


def test_a_key_is_one_account_s(shop: Shop, other_shop: Shop) -> None:
    mine = shop.post("parcels", ASYNC, **KEY)
    theirs = other_shop.post("parcels", ASYNC, **KEY)
    assert mine.json()["parcel"]["id"] != theirs.json()["parcel"]["id"]


def test_a_key_lives_a_day_and_is_swept_afterwards(shop: Shop) -> None:
    shop.post("parcels", ASYNC, **KEY)
    row = IdempotencyKey.objects.get()
    assert row.expires_at > timezone.now() + timedelta(hours=23, minutes=59)
    assert idempotency.forget_expired() == 0
    IdempotencyKey.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    shop.post("parcels", ASYNC, **KEY)  # expired and not yet swept: a new request
    assert Parcel.objects.count() == 2
    IdempotencyKey.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert idempotency.forget_expired() == 1


def test_who_comes_second_in_a_race_joins_the_first(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have looked and found nothing; the second keeps the first one's row, and fails."""
    first = shop.post("parcels", ASYNC, **KEY)
    look, looks = idempotency.find, []

    def blind(*args: Any) -> Any:
        looks.append(1)
        return None if len(looks) == 2 else look(*args)

    monkeypatch.setattr("parcels.views.create.find", lambda *_: None)
    looks.append(1)
    monkeypatch.setattr(idempotency, "find", blind)
    again = shop.post("parcels", ASYNC, **KEY)
    assert again.content == first.content
    assert Parcel.objects.count() == 1


def test_a_deleted_parcel_s_key_is_409(shop: Shop) -> None:
    made = shop.post("parcels", {"parcel": body()}, **KEY)
    shop.post(f"parcels/{made.json()['parcel']['id']}/cancel", {})
    assert shop.post("parcels", {"parcel": body()}, **KEY).status_code == 409


@pytest.mark.parametrize(
    "bought", [{"request_label_async": True}, {"request_label": True}], ids=["async", "sync"]
)
def test_a_batch_s_key_answers_about_those_that_are_left(
    shop: Shop, bought: dict[str, bool]
) -> None:
    batch = {"parcels": [body(), body(shipment=8, **bought)]}
    draft, kept = shop.post("parcels", batch, **KEY, Prefer="wait=0").json()["parcels"]
    shop.post(f"parcels/{draft['id']}/cancel", {})
    again = shop.post("parcels", batch, **KEY, Prefer="wait=0")
    assert again.status_code == (202 if "request_label" in bought else 200)
    assert [each["id"] for each in again.json()["parcels"]] == [kept["id"]]
    Parcel.objects.all().delete()
    assert shop.post("parcels", batch, **KEY).status_code == 409


def test_a_key_that_a_newer_version_has_written_is_read(shop: Shop) -> None:
    """Beside this one during an update, or before it was rolled back."""
    first = shop.post("parcels", ASYNC, **KEY)
    row = IdempotencyKey.objects.get()
    question = row.question["question"] | {"wish": "of a newer version"}  # type: ignore[index]
    row.question = {"question": question, "synchronous": False}
    row.save()
    assert shop.post("parcels", ASYNC, **KEY).json() == first.json()


def test_a_key_that_made_nothing_repeats_the_errors(shop: Shop) -> None:
    batch = {"parcels": [body(name="")]}
    first = shop.post("parcels?errors=verbose", batch, **KEY)
    again = shop.post("parcels?errors=verbose", batch, **KEY)
    assert first.json()["parcels"] == []
    assert (again.status_code, again.json()) == (first.status_code, first.json())


def test_an_open_breaker_answers_a_synchronous_request_at_once(shop: Shop) -> None:
    guards_of("postnl").leave(outcomes=[(True, 0.0, "")] * 10)
    response = shop.post("parcels", {"parcel": body(shipment=8, request_label=True)})
    parcel = response.json()["parcel"]
    assert response.status_code == 202
    assert parcel["status"]["id"] == 1001
    assert response["Location"].endswith(f"/api/v2/parcels/{parcel['id']}")
    assert int(response["Retry-After"]) >= 5
    assert Announcement.objects.get().state == State.PENDING


def test_retry_after_is_the_carrier_s_recent_median(shop: Shop) -> None:
    guards_of("postnl").leave(bought=[(duration, True) for duration in (9.0, 11.2, 30.0)])
    assert shop.post("parcels", ASYNC)["Retry-After"] == "12"
