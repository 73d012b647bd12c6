"""What an unknown announcement may become: adopted, bought again, ended, or a person's."""

import contextlib
import itertools
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone

from carriers import transport
from carriers.outcomes import (
    Absent,
    Announced,
    Document,
    Found,
    LookupResult,
    NotSent,
    Refused,
    Unknown,
    Voided,
)
from parcels.models import (
    Announcement,
    Attempt,
    CarrierContract,
    Parcel,
    SpareLabel,
    SpareState,
    State,
    WebhookEndpoint,
    WebhookEvent,
)
from parcels.models import Document as DocumentRow
from parcels.services import carrier_guards, protect, spares, sweep
from parcels.services.announce import announce
from parcels.services.claim import claim, prepare
from parcels.services.job import Result
from parcels.services.next_state import move_on
from parcels.services.reconcile import due_late_looks, look_again, reconcile
from parcels.services.record import finish
from parcels.statuses import Status
from parcels.tests.factories import PDF, AnnouncementFactory
from parcels.unguarded import without

pytestmark = pytest.mark.django_db
MOMENTS = ("run_at", "wake_at", "lease_until", "claimed_at", "sent_at", "call_ended_at",
           "unknown_since", "look_at", "deadline_at")  # fmt: skip
TIMEOUT = Unknown("timeout")


def label(number: str) -> Announced:
    return Announced(f"c-{number}", number, (Document("label", "pdf", PDF),))


def pass_time(seconds: float) -> None:
    """Move every stored moment back, so that the database's own clock stays in charge."""
    back = timedelta(seconds=seconds)
    Announcement.objects.update(**{name: F(name) - back for name in MOMENTS})
    SpareLabel.objects.update(run_at=F("run_at") - back)


def contract_with(key: str, row: Announcement) -> CarrierContract:
    credentials: Any = {"api_key": key}
    return CarrierContract.objects.create(
        account=row.account, carrier=row.carrier, credentials=credentials
    )


class Killed(BaseException):
    """What ends the process."""


def kill(steps: Any, *_: Any, **__: Any) -> None:
    steps.close()
    raise Killed


class Carrier:
    """Answers calls from a list; `calls` are their kinds with what they were made with."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.calls: list[str] = []
        self.keys: list[str] = []

    def perform(self, steps: Any, *_: Any, **__: Any) -> Any:
        known = steps.gi_frame.f_locals
        given = known.get("consignment")
        self.keys.append((given.credentials if given else known["credentials"])["api_key"])
        self.calls.append(steps.gi_code.co_name)
        steps.close()
        return self.answers.pop(0)


@pytest.fixture
def carrier(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Carrier:
    # The breaker counts real seconds, which don't pass here; it has tests of its own.
    settings.CARRIER_BREAKER_WINDOW = settings.CARRIER_BREAKER_MIN_CALLS = 10**6
    carrier_guards.forget()
    made = Carrier()
    monkeypatch.setattr(transport, "perform", made.perform)
    return made


def begun(carrier: Carrier, code: str = "postnl", **fields: Any) -> Announcement:
    """Return an announcement whose first purchase got no answer."""
    row = AnnouncementFactory.create(carrier=code, parcel__carrier=code, **fields)
    WebhookEndpoint.objects.create(account=row.account, url="https://shop.example/hook")
    carrier.answers = [TIMEOUT]
    announce(row.pk)
    row.refresh_from_db()
    assert row.state == State.UNKNOWN
    return row


def go_on(carrier: Carrier, row: Announcement, *answers: Any, seconds: float = 40) -> Announcement:
    """Let some time pass before each answer; buy or reconcile, whatever is due."""
    for answer in answers:
        carrier.answers = [answer]
        pass_time(seconds)
        announce(row.pk)
        if carrier.answers:  # it was not bought; else its next step may be due at once
            reconcile(row.pk)
    row.refresh_from_db()
    return row


@pytest.mark.parametrize("noted", [True, False])
def test_the_settling_window_counts_from_the_end_of_the_call(carrier: Carrier, noted: bool) -> None:
    """Finding 1: a call of 60 s that was sent 61 s ago has ended a second ago."""
    row = begun(carrier)
    Announcement.objects.update(sent_at=F("sent_at") - timedelta(seconds=61))
    if not noted:  # by a release before migration 6, which may serve beside this one
        Announcement.objects.update(call_ended_at=None)
    assert go_on(carrier, row, Absent(), Absent(), seconds=20).state == State.UNKNOWN
    assert go_on(carrier, row, Absent(), Absent(), seconds=60).state == State.PENDING
    assert carrier.calls.count("announce") == 1


def test_an_unknown_one_has_one_claimant_at_a_time(carrier: Carrier) -> None:
    row = begun(carrier)
    pass_time(40)
    assert claim([row.pk], State.UNKNOWN) == [row]
    assert claim([row.pk], State.UNKNOWN) == []
    pass_time(80)
    assert claim([row.pk], State.UNKNOWN) == [row]  # its claimant died


def test_a_dead_process_ends_its_call_when_its_lease_does(carrier: Carrier) -> None:
    row = AnnouncementFactory.create()
    assert prepare([row.pk])
    pass_time(80)
    sweep.end_leases()
    row.refresh_from_db()
    assert row.state == State.UNKNOWN
    assert row.sent_at
    assert row.call_ended_at
    assert (row.call_ended_at - row.sent_at).total_seconds() > 70
    assert go_on(carrier, row, Absent(), Absent(), seconds=5).state == State.UNKNOWN


def test_ages_are_the_database_s(carrier: Carrier, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding 6: a worker whose clock is a minute ahead believes no absence sooner."""

    def ahead() -> Any:
        return real() + timedelta(hours=1)

    real = timezone.now
    row = begun(carrier)
    monkeypatch.setattr(timezone, "now", ahead)
    assert go_on(carrier, row, Absent(), Absent(), seconds=5).state == State.UNKNOWN
    with without("clock"):
        assert go_on(carrier, row, Absent(), Absent(), seconds=5).state == State.PENDING


@pytest.mark.parametrize("refused", [Refused("credentials", "401", True), Refused("BAD", "no")])
def test_no_refusal_is_final_after_an_unknown(carrier: Carrier, refused: Refused) -> None:
    """Finding 2: booked, answer lost, the purchase after it refused: the label is looked up."""
    row = go_on(carrier, begun(carrier), Absent(), Absent(), seconds=120)
    assert row.state == State.PENDING
    assert go_on(carrier, row, refused).state == State.UNKNOWN
    row = go_on(carrier, row, Found((label("3S1"),)))
    assert row.state == State.ANNOUNCED
    assert Parcel.objects.get().tracking_number == "3S1"


def test_a_refusal_whose_absence_is_proved_is_final(carrier: Carrier) -> None:
    row = go_on(carrier, begun(carrier), Absent(), Absent(), seconds=120)
    row = go_on(carrier, row, Refused("BAD", "no"))
    row = go_on(carrier, row, Absent(), Absent(), seconds=120)
    assert (row.state, row.error) == (State.FAILED, "PostNL service error: no")
    # The carrier's own text is with the row: it may repeat an address, and attempts are kept.
    assert Attempt.objects.get(outcome="refused").detail == "BAD"


@pytest.mark.parametrize("noted", [True, False])
def test_a_refusal_after_an_unknown_goes_to_a_person_where_nobody_can_be_asked(
    carrier: Carrier, noted: bool
) -> None:
    row = begun(carrier, "colibri")
    if not noted:  # by a release before migration 6, beside this one during its update
        Announcement.objects.update(unknown_since=None, call_ended_at=None)
    row = go_on(carrier, row, Refused("credentials", "401", True))
    assert row.state == State.NEEDS_REVIEW


def test_without_that_rule_the_label_is_lost(carrier: Carrier) -> None:
    with without("refusal"):
        row = go_on(carrier, begun(carrier, "colibri"), Refused("credentials", "401", True))
    assert row.state == State.FAILED


def test_a_proved_absence_is_followed_by_two_purchases(carrier: Carrier) -> None:
    """Finding 5: a carrier that answers 500 to one address is asked three times, not all day."""
    row = begun(carrier)
    for _ in range(2):
        row = go_on(carrier, row, Absent(), Absent(), seconds=120)
        assert row.state == State.PENDING
        row = go_on(carrier, row, Unknown("server_error"))
    row = go_on(carrier, row, Absent(), Absent(), seconds=120)
    assert row.state == State.NEEDS_REVIEW
    assert carrier.calls.count("announce") == 3
    assert "came to nothing" in row.error


def test_a_purchase_after_an_absence_has_an_hour_of_its_own(carrier: Carrier) -> None:
    """Its breaker was open for longer than that: one lookup without an answer ended in a review."""
    row = go_on(carrier, begun(carrier), Absent(), Absent(), seconds=2000)
    assert row.state == State.PENDING
    row = go_on(carrier, row, TIMEOUT, TIMEOUT)
    assert row.state == State.UNKNOWN
    row = go_on(carrier, row, TIMEOUT, seconds=3600)
    assert row.state == State.NEEDS_REVIEW


def test_the_contract_is_fixed_by_the_first_purchase(carrier: Carrier) -> None:
    """Finding 4: a new default contract buys nothing that the old one has bought already."""
    row = AnnouncementFactory.create()
    old = contract_with("old", row)
    carrier.answers = [TIMEOUT]
    announce(row.pk)
    CarrierContract.objects.filter(pk=old.pk).update(is_default=False)
    contract_with("new", row)
    row = go_on(carrier, row, Found((label("3S1"),)))
    assert (row.state, carrier.keys) == (State.ANNOUNCED, ["old", "old"])


@pytest.mark.parametrize(
    ("guard", "code", "state"),
    [
        ("", "postnl", State.NEEDS_REVIEW),
        ("", "colibri", State.NEEDS_REVIEW),
        ("credentials", "postnl", State.PENDING),
    ],
)
def test_an_absence_seen_with_other_credentials_proves_nothing(
    carrier: Carrier, guard: str, code: str, state: State
) -> None:
    row = AnnouncementFactory.create(carrier=code, parcel__carrier=code)
    contract = contract_with("old", row)
    carrier.answers = [TIMEOUT]
    announce(row.pk)
    contract.credentials = {"api_key": "of another account"}
    contract.save()
    with without(guard):
        assert go_on(carrier, row, Absent(), Absent(), seconds=120).state == state
    assert carrier.calls.count("announce") == 1


def test_a_rotated_secret_key_changes_no_credentials(carrier: Carrier, settings: Any) -> None:
    row = begun(carrier)
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "n" * 60
    assert go_on(carrier, row, Absent(), Absent(), seconds=120).state == State.PENDING


def test_a_label_for_a_lost_row_is_kept_and_voided(carrier: Carrier) -> None:
    """Finding 7: the row has ended with another label; the one in hand is a row, voided later."""
    row = AnnouncementFactory.create()
    [late] = prepare([row.pk])
    pass_time(80)
    sweep.end_leases()
    go_on(carrier, row, Found((label("3S1"),)))
    finish([Result(late, label("3S2"), 1.0)])
    spare = SpareLabel.objects.get()
    assert (spare.tracking_number, spare.source) == ("3S2", "answer")
    assert DocumentRow.objects.filter(attempt=spare.attempt).exists()
    assert spare.attempt
    assert not spare.attempt.recorded
    carrier.answers = [TIMEOUT]
    assert spares.due_spares() == [spare.pk]
    assert spares.due_spares() == []
    spares.settle_spare(spare.pk)
    pass_time(70)
    assert spares.due_spares() == [spare.pk]
    carrier.answers = [Voided()]
    spares.settle_spare(spare.pk)
    spare.refresh_from_db()
    assert (spare.state, spare.tries) == (SpareState.GONE, 2)
    assert list(Attempt.objects.filter(kind="void").values_list("outcome", flat=True)) == [
        "unknown", "voided"]  # fmt: skip


@pytest.mark.parametrize("listed", [Absent(), Found((label("3S1"),))])
def test_a_second_label_that_is_not_listed_yet_is_not_gone(
    carrier: Carrier, listed: LookupResult
) -> None:
    """Counted from when it came, also where its announcement ended long ago."""
    ended = timezone.now() - timedelta(days=1)
    row = AnnouncementFactory.create(
        state=State.ANNOUNCED, date_ended=ended, parcel__tracking_number="3S1"
    )
    spares.note_spares(spares.extras(row, [label("3S2")]), "answer")
    spare = SpareLabel.objects.get()
    for state in (SpareState.OPEN, SpareState.GONE):
        carrier.answers = [Refused("NOT_VOIDABLE", "still in process"), listed]
        spares.settle_spare(spare.pk)
        spare.refresh_from_db()
        assert spare.state == state
        SpareLabel.objects.update(date_created=ended)


def test_a_label_for_a_lost_row_may_be_its_own(carrier: Carrier) -> None:
    row = AnnouncementFactory.create()
    [late] = prepare([row.pk])
    pass_time(80)
    sweep.end_leases()
    reconciling = Found((label("3S1"),))
    carrier.answers = [TIMEOUT]
    reconcile(row.pk)  # has the row, and no answer yet
    finish([Result(late, label("3S1"), 1.0)])
    spare = SpareLabel.objects.get()
    spares.settle_spare(spare.pk)
    spare.refresh_from_db()
    assert spare.state == SpareState.OPEN  # nobody knows yet
    go_on(carrier, row, reconciling)
    carrier.calls.clear()
    spares.settle_spare(spare.pk)
    spare.refresh_from_db()
    assert (spare.state, carrier.calls) == (SpareState.KEPT, [])
    SpareLabel.objects.update(date_ended=timezone.now() - timedelta(hours=2))
    row.refresh_from_db()
    spares.note_spares(spares.extras(row, [label("3S1")]), "invoice")
    spare.refresh_from_db()
    assert spare.state == SpareState.OPEN
    spares.settle_spare(spare.pk)
    spare.refresh_from_db()
    assert (spare.state, carrier.calls) == (SpareState.KEPT, [])


@pytest.mark.parametrize(
    ("source", "calls"), [("answer", []), ("lookup", []), ("late_look", ["void"])]
)
def test_only_a_label_that_is_listed_after_its_void_is_voided_again(
    carrier: Carrier, source: str, calls: list[str]
) -> None:
    row = AnnouncementFactory.create(state=State.VOIDED, parcel__tracking_number="3S1")
    spares.note_spares(spares.extras(row, [label("3S1")]), source)
    carrier.answers = [Voided()]
    spare = SpareLabel.objects.get()
    spares.settle_spare(spare.pk)
    spare.refresh_from_db()
    assert (spare.state, carrier.calls) == (SpareState.GONE, calls)


@pytest.mark.parametrize(
    ("code", "state", "calls"),
    [
        ("postnl", SpareState.KEPT, []),
        ("tortoise", SpareState.KEPT, []),
        # By the number: its labels of one reference share their id.
        ("meridian", SpareState.GONE, ["void"]),
    ],
)
def test_our_own_label_is_not_voided_by_its_id(
    carrier: Carrier, code: str, state: SpareState, calls: list[str]
) -> None:
    """A carrier may spell its tracking number in another way when it lists it."""
    row = AnnouncementFactory.create(
        state=State.ANNOUNCED, carrier=code, carrier_id="c-3S1", parcel__tracking_number="3S1"
    )
    listed = replace(label("3S1"), tracking_number="3S-1")
    spares.note_spares(spares.extras(row, [listed]), "late_look")
    carrier.answers = [Voided()]
    spare = SpareLabel.objects.get()
    spares.settle_spare(spare.pk)
    spare.refresh_from_db()
    assert (spare.state, carrier.calls) == (state, calls)


def test_several_found_are_rows_at_once(carrier: Carrier) -> None:
    go_on(carrier, begun(carrier), Found((label("3S1"), label("3S2"))))
    assert Announcement.objects.get().state == State.ANNOUNCED
    assert SpareLabel.objects.get().tracking_number == "3S2"


def test_what_was_unknown_is_looked_at_again(carrier: Carrier) -> None:
    row = go_on(carrier, begun(carrier), Found((label("3S1"),)))
    assert due_late_looks() == []
    pass_time(601)
    assert due_late_looks() == [row.pk]
    assert due_late_looks() == []
    carrier.answers = [NotSent("unreachable")]
    look_again(row.pk)
    pass_time(80)
    assert due_late_looks() == [row.pk]  # that was no look
    carrier.answers = [Found((label("3S1"), label("3S2")))]
    look_again(row.pk)
    assert SpareLabel.objects.get().tracking_number == "3S2"
    assert Attempt.objects.filter(kind="late_look").count() == 1
    pass_time(3001)
    assert due_late_looks() == [row.pk]
    carrier.answers = [Found((label("3S1"),))]
    look_again(row.pk)
    row.refresh_from_db()
    assert row.look_at is None


def test_what_had_an_answer_is_not_looked_at_again(carrier: Carrier) -> None:
    row = AnnouncementFactory.create()
    carrier.answers = [label("3S1")]
    announce(row.pk)
    row.refresh_from_db()
    assert (row.state, row.look_at) == (State.ANNOUNCED, None)


@pytest.mark.parametrize(("guard", "state"), [("", State.NEEDS_REVIEW), ("claims", State.PENDING)])
def test_a_row_that_can_t_be_prepared_goes_to_a_person(
    carrier: Carrier, guard: str, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding 11."""

    def broken(*_: Any) -> Any:
        raise ValueError("it can't be decrypted")

    monkeypatch.setattr("parcels.services.job.credentials_hashes", broken)
    row = AnnouncementFactory.create()
    with without(guard):
        for _ in range(8):
            pass_time(80)
            announce(row.pk)
    row.refresh_from_db()
    assert (row.state, row.tries, carrier.calls) == (state, 0, [])


def test_a_row_that_kills_its_workers_goes_to_a_person(carrier: Carrier) -> None:
    row = AnnouncementFactory.create()
    for _ in range(20):
        prepare([row.pk])  # and dies
        pass_time(80)
        sweep.end_leases()
        Announcement.objects.filter(state=State.UNKNOWN).update(state=State.PENDING)
    row.refresh_from_db()
    assert row.state == State.NEEDS_REVIEW


@pytest.mark.parametrize("code", ["postnl", "colibri"])
def test_a_deadly_answer_goes_to_a_person_also_where_the_carrier_is_busy(
    carrier: Carrier, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """A claim that was turned away shows nothing of what reading its answer does."""
    row = begun(carrier, code)
    monkeypatch.setattr(transport, "perform", kill)
    enter, rounds = protect.enter, itertools.count()
    full = {row.pk: NotSent("bulkhead_full")}
    monkeypatch.setattr(protect, "enter", lambda js: full if next(rounds) % 3 == 2 else enter(js))
    for _ in range(30):
        pass_time(80)
        with contextlib.suppress(Killed):
            reconcile(row.pk)
        sweep.end_leases()
    row.refresh_from_db()
    assert row.state == State.NEEDS_REVIEW


def test_claims_that_end_in_an_outcome_don_t_count(carrier: Carrier) -> None:
    row = AnnouncementFactory.create()
    for _ in range(8):
        go_on(carrier, row, NotSent("unreachable"), seconds=80)
    row.refresh_from_db()
    assert (row.state, row.claims, row.tries) == (State.PENDING, 0, 8)


def test_a_guard_that_refuses_backs_off(carrier: Carrier, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding 15: a database so slow that no guard passes gets fewer statements, not as many."""
    monkeypatch.setattr("parcels.services.claim.LEASE_SHARE", -1)
    row = AnnouncementFactory.create(fence=10)
    waits = []
    for _ in range(30):
        announce(row.pk)
        row.refresh_from_db()
        waits.append((row.run_at - timezone.now()).total_seconds())
        pass_time(120)
    assert (row.state, carrier.calls) == (State.PENDING, [])
    assert 10 < max(waits) <= 60


def test_a_pending_row_ends_at_its_deadline(carrier: Carrier) -> None:
    """Finding 11: a label that is bought a day late surprises more than it helps."""
    row = AnnouncementFactory.create()
    WebhookEndpoint.objects.create(account=row.account, url="https://shop.example/hook")
    pass_time(24 * 3600 + 1)
    announce(row.pk)
    assert carrier.calls == []
    assert sweep.end_overdue() == 1
    assert sweep.show_overdue_reviews() == 1
    row.refresh_from_db()
    parcel = Parcel.objects.get()
    assert (row.state, parcel.status) == (State.NEEDS_REVIEW, Status.ANNOUNCEMENT_FAILED)
    assert "carrier" not in parcel.carrier_error  # it was never asked
    assert WebhookEvent.objects.get().status == Status.ANNOUNCEMENT_FAILED


def test_a_pending_row_of_a_cancelled_parcel_is_withdrawn_at_its_deadline() -> None:
    row = AnnouncementFactory.create(parcel__status=Status.CANCELLATION_REQUESTED)
    pass_time(24 * 3600 + 1)
    sweep.end_overdue()
    row.refresh_from_db()
    assert row.state == State.CANCELLED
    assert Parcel.objects.get().status == Status.CANCELLED


def test_a_lookup_may_end_before_its_row_goes_to_a_person(carrier: Carrier) -> None:
    row = begun(carrier)
    pass_time(24 * 3600 + 1)
    [late] = claim([row.pk], State.UNKNOWN)
    assert sweep.end_overdue() == 0
    pass_time(80)  # its process is stuck
    assert sweep.end_overdue() == 1
    assert not move_on(late, State.UNKNOWN, 0.0)
    row.refresh_from_db()
    assert (row.state, row.error) == (State.NEEDS_REVIEW, "PostNL service error: timeout")


def test_a_row_that_was_claimed_meanwhile_is_not_put_under_review(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another process claimed it after it was read, and gave it back."""
    row = AnnouncementFactory.create(parcel__status=Status.CANCELLATION_REQUESTED)
    pass_time(24 * 3600 + 1)

    def too_late(*_: Any) -> bool:
        Announcement.objects.update(fence=F("fence") + 1)
        return False

    monkeypatch.setattr(sweep, "withdraw", too_late)
    sweep.end_overdue()
    row.refresh_from_db()
    assert row.state == State.PENDING
