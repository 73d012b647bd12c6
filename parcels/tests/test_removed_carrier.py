"""A carrier whose adapter was removed, while rows of it are stored: they keep no other waiting."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from parcels.management.commands.sweeper import Sweeper
from parcels.models import Announcement, Parcel, SpareLabel, State
from parcels.services import review, sweep, void
from parcels.services.announce import announce
from parcels.services.reconcile import reconcile
from parcels.services.wake import wake_after_commit
from parcels.statuses import Status
from parcels.tests.cancellations import Sent
from parcels.tests.factories import AnnouncementFactory
from parcels.tests.requests import Shop, body

pytestmark = pytest.mark.django_db
AGO = timezone.now() - timedelta(days=2)
AN_HOUR_AGO = timezone.now() - timedelta(hours=1)


def of_it(state: State, **fields: Any) -> Announcement:
    """Return an announcement, made long ago, at a carrier that is no more."""
    row: Announcement = AnnouncementFactory.create(
        state=state, parcel__carrier="dodo", parcel__shipping_method=999, **fields
    )
    Announcement.objects.filter(pk=row.pk).update(date_created=AGO)
    return row


@pytest.fixture
def sweeper(monkeypatch: pytest.MonkeyPatch) -> Sweeper:
    """Return a sweeper without a broker: it does all itself, at once."""
    made = Sweeper()

    def do(work: Callable[[int], None], row_id: int) -> bool:
        work(row_id)
        return True

    monkeypatch.setattr("parcels.management.commands.sweeper.broker_identity", lambda: None)
    monkeypatch.setattr("parcels.management.commands.sweeper.send", lambda *_: False)
    monkeypatch.setattr(made, "_do_myself", do)
    return made


def test_a_round_of_the_sweeper_goes_on(sweeper: Sweeper) -> None:
    given = {"unknown_since": AGO, "deadline_at": AGO}
    withdrawn = of_it(State.PENDING, parcel__status=Status.CANCELLATION_REQUESTED, **given)
    rows = [of_it(state, **given) for state in State]
    other = AnnouncementFactory.create(deadline_at=AGO)
    spare = of_it(State.FAILED, date_ended=AGO)
    SpareLabel.objects.create(announcement=spare, tracking_number="3S7", run_at=AGO)
    of_it(State.ANNOUNCED, look_at=AGO, date_ended=AGO)
    bought = of_it(
        State.ANNOUNCED,
        parcel__status=Status.CANCELLATION_REQUESTED,
        parcel__date_cancel_requested=AGO,
    )
    assert sweeper.round()
    assert Announcement.objects.get(pk=other.pk).state == State.NEEDS_REVIEW
    assert Announcement.objects.get(pk=withdrawn.pk).state == State.CANCELLED
    states = {row.state: Announcement.objects.get(pk=row.pk).state for row in rows}
    assert states[State.PENDING] == states[State.UNKNOWN] == State.NEEDS_REVIEW
    bought.parcel.refresh_from_db()
    assert bought.parcel.status == Status.CANCELLATION_FAILED


@pytest.mark.parametrize("state", [State.PENDING, State.UNKNOWN])
def test_what_nobody_can_announce_comes_to_a_person_soon(sweeper: Sweeper, state: State) -> None:
    later = timezone.now() + timedelta(hours=1)
    row = of_it(state, unknown_since=AGO)
    at_work = of_it(State.UNKNOWN, unknown_since=AGO, lease_until=later)
    young = of_it(state, unknown_since=AGO)  # its carrier may be back in a moment
    Announcement.objects.filter(pk=young.pk).update(date_created=timezone.now())
    other = AnnouncementFactory.create(wake_at=later)
    assert sweeper.round()
    row.refresh_from_db()
    assert (row.state, row.error) == (State.NEEDS_REVIEW, sweep.REMOVED)
    untouched = Announcement.objects.filter(pk__in=[at_work.pk, young.pk, other.pk])
    assert not untouched.filter(state=State.NEEDS_REVIEW).exists()


def test_a_cancelled_one_is_withdrawn_soon(sweeper: Sweeper) -> None:
    row = of_it(State.PENDING, parcel__status=Status.CANCELLATION_REQUESTED)
    assert sweeper.round()
    row.refresh_from_db()
    assert row.state == State.CANCELLED


def test_a_cancellation_fails_soon_and_rings_no_queue_without_readers(
    sweeper: Sweeper, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues: list[str] = []

    def note(task: str, row_ids: Any, queue: str, *_: Any) -> bool:
        queues.append(queue)
        return True

    monkeypatch.setattr("parcels.management.commands.sweeper.send", note)
    bought = of_it(
        State.ANNOUNCED,
        wake_at=AGO,
        parcel__account=shop.account,
        parcel__status=Status.CANCELLATION_REQUESTED,
        parcel__date_cancel_requested=timezone.now(),
    )
    assert sweeper.round()
    bought.parcel.refresh_from_db()
    assert bought.parcel.status == Status.CANCELLATION_REQUESTED
    Parcel.objects.update(date_cancel_requested=AN_HOUR_AGO)
    assert void.give_up() == 1
    bought.parcel.refresh_from_db()
    assert bought.parcel.status == Status.CANCELLATION_FAILED
    assert bought.parcel.carrier_error == void.REMOVED
    assert not queues


@pytest.mark.parametrize("task", ["announce", "void"])
def test_a_queue_without_readers_gets_no_first_message(
    task: str, no_broker: Sent, django_capture_on_commit_callbacks: Any
) -> None:
    known = AnnouncementFactory.create(state=State.ANNOUNCED)
    with django_capture_on_commit_callbacks(execute=True):
        wake_after_commit([of_it(State.ANNOUNCED), known], task)
    assert no_broker == [(task, known.pk, known.carrier)]


def test_what_is_unknown_comes_to_a_person_who_can_decide() -> None:
    row = of_it(State.UNKNOWN, unknown_since=AGO)
    reconcile(row.pk)
    row.refresh_from_db()
    assert row.state == State.NEEDS_REVIEW
    assert row.error == "The carrier can't be asked what it has sold."
    client = Client()
    client.force_login(User.objects.create_superuser("operator"))
    assert row.reference in client.get("/operator/review").content.decode()
    review.give_up(row, by="operator")
    row.refresh_from_db()
    assert row.state == State.FAILED


def test_what_waits_is_given_back() -> None:
    row = of_it(State.PENDING)
    announce(row.pk)
    row.refresh_from_db()
    assert (row.state, row.error) == (State.PENDING, "It can't be prepared: see the log.")


def test_its_parcels_are_shown(shop: Shop) -> None:
    parcel = of_it(State.PENDING, parcel__account=shop.account).parcel
    assert shop.get(f"parcels/{parcel.pk}").json()["parcel"]["carrier"] == {"code": "dodo"}
    assert shop.get("parcels").json()["parcels"]


def test_a_stored_one_is_refused(shop: Shop) -> None:
    order = body(external_reference="r", shipment=8)
    assert shop.post("parcels", {"parcel": order}).status_code == 200
    Parcel.objects.update(shipping_method=999, carrier="dodo")
    refused = shop.post("parcels", {"parcel": order | {"request_label": True}})
    assert refused.status_code == 400
    assert refused.json()["error"]["message"] == "shipment: 'It isn't offered any more.'"
