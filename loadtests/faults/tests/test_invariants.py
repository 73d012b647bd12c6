"""Each invariant shown red on journals that were made to break it, and green on sound ones."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from loadtests.faults.invariants import check, sold_twice
from loadtests.faults.journals import (
    AnnouncementRow,
    AttemptRow,
    Booking,
    Event,
    Journals,
    ParcelRow,
    SpareRow,
    Told,
    read_ledger,
)

PARCEL = {"id": 1, "order_number": "one", "tracking_number": "T1"}
TOLD = Told("one", 0, 10.0, True, False, 11.0, 200, [PARCEL])
ROW = AnnouncementRow(1, 1, "postnl", "R1", "announced", 1, "T1")
SOLD = Booking("postnl", "R1", "s1", "T1")
SPARE = Booking("postnl", "R1", "s2", "T2")


def sound() -> Journals:
    return Journals(
        told=[replace(TOLD)],
        parcels=[ParcelRow(1, 7, "one", 1000, "T1")],
        announcements=[ROW],
        ledger=[SOLD],
        accounts={0: 7, 1: 8},
        attempts=[AttemptRow(1, "announce", "announced")],
        outbox=[Event("e1", 1, 1000)],
        events=[Event("e1", 1, 1000)],
        deliveries={"e1": "delivered"},
    )


def with_end(state: str, status: int, tracking_number: str = "T1") -> Journals:
    journals = sound()
    journals.parcels = [ParcelRow(1, 7, "one", status, "T1")]
    journals.announcements = [replace(ROW, state=state, tracking_number=tracking_number)]
    journals.outbox = journals.events = [Event("e1", 1, status)]
    return journals


def broken(journals: Journals) -> set[str]:
    return {finding.invariant for finding in check(journals) if not finding.holds}


def test_sound_journals_hold() -> None:
    assert broken(sound()) == set()
    checked = {finding.invariant: finding.checked for finding in check(sound())}
    # Nothing has failed, and nothing was sold twice.
    assert checked == {f"I{number}": 1 for number in range(1, 13)} | {"I9": 0, "I10": 0}


def test_of_another_run_nothing_is_looked_at_and_of_this_one_all() -> None:
    assert sound().of("one") == sound()
    assert sound().of("two").parcels == []


def test_a_lost_row() -> None:
    journals = sound()
    journals.told.append(replace(TOLD, parcels=[PARCEL | {"id": 9}]))
    assert broken(journals) == {"I1"}


def test_what_was_accepted_without_a_name_is_stored() -> None:
    journals = sound()
    journals.told = [replace(TOLD, status=202, parcels=[])]
    assert broken(journals) == set()
    journals.told.append(replace(TOLD, intent="two", status=202, parcels=[]))
    assert broken(journals) == {"I1"}


def test_what_nobody_was_promised_need_not_be_there() -> None:
    journals = sound()
    journals.told.append(replace(TOLD, status=500, parcels=[PARCEL | {"id": 9}]))
    assert broken(journals) == set()


def test_a_200_that_is_no_end() -> None:
    waits = PARCEL | {"tracking_number": "", "status": {"id": 1001}}
    journals = sound()
    journals.told = [replace(TOLD, parcels=[waits], status=202)]
    assert broken(journals) == set()
    journals.told.append(replace(TOLD, parcels=[waits], synchronous=False))
    assert broken(journals) == set()
    journals.told.append(replace(TOLD, parcels=[waits]))
    assert broken(journals) == {"I6"}


@pytest.mark.parametrize(
    "told",
    [
        replace(TOLD, parcels=[PARCEL | {"tracking_number": "", "status": {"id": 1000}}]),
        replace(TOLD, parcels=[PARCEL | {"tracking_number": "", "status": {"id": 1002}}]),
        replace(TOLD, parcels=[]),
        replace(TOLD, parcels=[], error="JSONDecodeError: Expecting value"),
        replace(TOLD, status=202, parcels=[], error="JSONDecodeError: Expecting value"),
    ],
)
def test_a_200_that_tells_less_than_is_stored(told: Told) -> None:
    journals = sound()
    journals.told = [told]
    assert broken(journals) == {"I6"}


def test_a_refusal_that_is_told_as_one() -> None:
    journals = refused()
    parcel = PARCEL | {"tracking_number": "", "status": {"id": 1002}}
    journals.told = [replace(TOLD, parcels=[parcel])]
    assert broken(journals) == set()


def test_bought_twice_under_one_reference() -> None:
    journals = sound()
    journals.ledger.append(SPARE)
    assert broken(journals) == {"I2", "I8", "I10"}


def test_bought_twice_under_two_parcels_of_one_intent() -> None:
    journals = sound()
    journals.parcels.append(ParcelRow(2, 7, "one", 1000, "T2"))
    journals.announcements.append(
        replace(ROW, id=2, parcel=2, reference="R2", tracking_number="T2")
    )
    journals.ledger.append(Booking("postnl", "R2", "s2", "T2"))
    journals.outbox.append(Event("e2", 2, 1000))
    assert broken(journals) == {"I2"}


def test_a_voided_spare_is_no_second_purchase() -> None:
    journals = sound()
    journals.ledger += [SPARE, replace(SPARE, event="voided")]
    assert broken(journals) == set()
    assert list(sold_twice(journals)) == ["R1"]  # counted all the same


def test_a_voided_label_was_sold_once() -> None:
    journals = sound()
    journals.ledger.append(replace(SOLD, event="voided"))
    assert sold_twice(journals) == {}


def test_a_cancelled_row_has_no_label_of_its_own() -> None:
    journals = with_end("cancelled", 2000)
    journals.ledger += [SPARE, replace(SPARE, event="voided")]
    assert "I10" in broken(journals)


def test_the_wrong_one_of_two_labels_was_voided() -> None:
    journals = sound()
    journals.ledger += [SPARE, replace(SOLD, event="voided")]
    assert broken(journals) == {"I4", "I8", "I10"}


def test_a_spare_that_an_open_row_names_is_known() -> None:
    journals = sound()
    journals.ledger.append(SPARE)
    journals.spares = [SpareRow(1, "T2", "open")]
    assert broken(journals) == {"I2", "I8"}


@pytest.mark.parametrize(
    "spare", [SpareRow(1, "T2", "gone"), SpareRow(1, "T9", "open"), SpareRow(2, "T2", "open")]
)
def test_a_spare_that_no_open_row_names_is_unknown(spare: SpareRow) -> None:
    journals = sound()
    journals.ledger.append(SPARE)
    journals.spares = [spare]
    assert "I10" in broken(journals)


def test_a_second_label_of_a_row_under_review_is_known() -> None:
    journals = with_end("needs_review", 1001)
    journals.ledger.append(SPARE)
    assert broken(journals) == {"I2"}


def test_two_labels_of_a_failed_row_are_unknown() -> None:
    journals = refused()
    journals.ledger = [SOLD, SPARE]
    assert broken(journals) == {"I2", "I8", "I10"}


def test_a_voided_label_in_a_row() -> None:
    journals = sound()
    journals.ledger.append(replace(SOLD, event="voided"))
    assert broken(journals) == {"I4", "I8"}


def test_a_carrier_that_cannot_be_asked_has_no_live_count() -> None:
    journals = with_end("cancelled", 2000)
    journals.announcements = [replace(ROW, carrier="lantern", state="cancelled")]
    assert broken(journals) == set()


@pytest.mark.parametrize(
    ("state", "status"), [("failed", 1002), ("cancelled", 2000), ("voided", 2000)]
)
def test_a_live_label_of_what_ended_without_one(state: str, status: int) -> None:
    journals = with_end(state, status)
    journals.attempts.append(AttemptRow(1, "announce", "refused"))
    assert broken(journals) == {"I8"}


def refused() -> Journals:
    journals = sound()
    journals.told = []
    journals.parcels = [ParcelRow(1, 7, "one", 1002, "")]
    journals.announcements = [replace(ROW, state="failed", tracking_number="")]
    journals.ledger = []
    journals.attempts = [AttemptRow(1, "announce", "refused", "ADDRESS_INVALID")]
    journals.outbox = journals.events = [Event("e1", 1, 1002)]
    return journals


@pytest.mark.parametrize(
    ("attempt", "allowed"),
    [
        (AttemptRow(1, "announce", "refused", "ADDRESS_INVALID"), True),
        (AttemptRow(1, "announce", "not_sent", "unbuildable"), True),
        (AttemptRow(1, "review", "given_up", "by an operator"), True),
        (AttemptRow(1, "announce", "not_sent", "refused_connection"), False),
        (AttemptRow(1, "announce", "throttled"), False),
        (AttemptRow(1, "announce", "unknown", "timeout"), False),
        (AttemptRow(2, "announce", "refused", "another's"), False),
    ],
)
def test_what_no_carrier_refused_does_not_fail(attempt: AttemptRow, allowed: bool) -> None:
    journals = refused()
    journals.attempts = [attempt]
    assert broken(journals) == (set() if allowed else {"I3", "I9"})


@pytest.mark.parametrize(
    ("state", "status"), [("announced", 1000), ("failed", 1002), ("cancelled", 2000)]
)
def test_a_terminal_status_without_its_event(state: str, status: int) -> None:
    journals = with_end(state, status)
    journals.ledger = [SOLD] if state == "announced" else []
    journals.attempts = [AttemptRow(1, "announce", "refused")]
    assert broken(journals) == set()
    journals.outbox = [Event("e1", 1, 1001)]
    assert broken(journals) == {"I11"}


def test_a_terminal_status_with_two_events() -> None:
    journals = sound()
    journals.outbox.append(Event("e2", 1, 1000))
    assert broken(journals) == {"I11"}


def test_a_parcel_that_is_tracked_had_its_event() -> None:
    journals = sound()
    journals.parcels = [ParcelRow(1, 7, "one", 22, "T1")]
    assert broken(journals) == set()
    journals.outbox, journals.events = [], []
    assert broken(journals) == {"I11"}


def test_an_earlier_end_has_one_event_too() -> None:
    journals = with_end("voided", 2000)
    journals.ledger = []
    journals.outbox = [Event(f"e{number}", 1, 1000) for number in (1, 2)]
    journals.outbox.append(Event("e3", 1, 2000))
    assert broken(journals) == {"I11"}


def test_a_delivery_that_comes_twice_is_one_event() -> None:
    journals = sound()
    journals.events *= 2
    assert broken(journals) == set()


@pytest.mark.parametrize("state", ["delivered", "failed", "nobody"])
def test_a_delivery_that_has_ended_and_that_nobody_saw(state: str) -> None:
    journals = sound()
    journals.events = []
    journals.deliveries = {"e1": state}
    assert broken(journals) == {"I11"}


@pytest.mark.parametrize("state", ["pending", ""])
def test_a_delivery_that_is_still_to_come(state: str) -> None:
    journals = sound()
    journals.events = []
    journals.deliveries = {"e1": state}
    assert broken(journals) == set()


def test_a_delivery_of_no_event() -> None:
    journals = sound()
    journals.events.append(Event("e9", 1, 1000))
    assert broken(journals) == {"I11"}


def test_a_delivery_of_another_status_than_its_event_s() -> None:
    journals = sound()
    journals.events.append(Event("e1", 1, 91))
    assert broken(journals) == {"I11"}


@pytest.mark.parametrize("state", ["pending", "announcing", "unknown"])
def test_a_row_that_never_ends(state: str) -> None:
    journals = sound()
    journals.announcements = [replace(ROW, state=state)]
    assert broken(journals) == {"I3"}


def test_a_row_under_review_is_an_end() -> None:
    assert broken(with_end("needs_review", 1001)) == set()


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("announced", 999),
        ("announced", 1001),
        ("announced", 1002),
        ("announced", 1999),
        ("announced", 2000),
        ("announced", 2001),
        ("voided", 1000),
        ("voided", 22),
        ("cancelled", 1001),
        ("cancelled", 1999),
        ("failed", 1001),
        ("needs_review", 1000),
    ],
)
def test_an_end_that_the_parcel_does_not_show(state: str, status: int) -> None:
    journals = with_end(state, status)
    journals.ledger = [SOLD] if state == "announced" else []
    journals.attempts = [AttemptRow(1, "announce", "refused")]
    assert broken(journals) - {"I11"} == {"I12"}


def test_the_last_announcement_of_a_parcel_counts() -> None:
    journals = sound()
    failed = replace(ROW, id=0, reference="R0", state="failed", tracking_number="")
    journals.announcements.append(failed)
    journals.attempts.append(AttemptRow(0, "announce", "refused"))
    assert broken(journals) == set()


def test_a_parcel_that_nothing_announces() -> None:
    journals = sound()
    journals.parcels.append(ParcelRow(2, 7, "two", 1001, ""))
    assert broken(journals) == {"I3"}


def test_a_label_that_was_never_sold() -> None:
    journals = sound()
    journals.ledger = [replace(SOLD, tracking_number="T9")]
    assert broken(journals) == {"I4", "I8"}


def test_a_purchase_without_a_row() -> None:
    journals = sound()
    journals.ledger.append(Booking("postnl", "R9", "s9", "T9"))
    assert broken(journals) == {"I5"}


def test_a_client_without_an_answer() -> None:
    journals = sound()
    journals.told.append(Told("two", 0, 10.0, error="reset"))
    assert broken(journals) == {"I6"}


def test_who_hung_up_needs_no_answer() -> None:
    journals = sound()
    journals.told.append(Told("two", 0, 10.0, hung_up=True))
    assert broken(journals) == set()


def test_an_answer_that_is_not_what_is_stored() -> None:
    journals = sound()
    journals.told = [replace(TOLD, parcels=[PARCEL | {"tracking_number": "T9"}])]
    assert broken(journals) == {"I6"}


def test_another_s_parcel() -> None:
    journals = sound()
    journals.told = [replace(TOLD, account=1)]
    assert broken(journals) == {"I7"}


def test_another_request_s_parcel() -> None:
    journals = sound()
    journals.told = [replace(TOLD, parcels=[PARCEL | {"order_number": "other"}])]
    assert broken(journals) == {"I7"}


def test_an_end_that_was_told_twice_is_one_violation() -> None:
    journals = sound()
    journals.outbox.append(Event("e2", 1, 1000))
    [found] = [each for each in check(journals) if not each.holds]
    assert (found.invariant, found.violations) == ("I11", 1)


def test_what_is_no_end_may_be_told_more_than_once() -> None:
    journals = sound()
    journals.outbox += [Event("e2", 1, 91), Event("e3", 1, 91)]
    assert broken(journals) == set()


def test_a_cancellation_that_failed_is_no_end_of_its_own() -> None:
    journals = sound()
    journals.parcels = [ParcelRow(1, 7, "one", 94, "T1")]
    journals.outbox = [Event("e1", 1, 94)]
    journals.events = [Event("e1", 1, 94)]
    assert broken(journals) == set()


def test_only_a_ledger_s_last_line_may_be_torn(tmp_path: Path) -> None:
    """A booking that can't be read would be one less that was sold twice."""
    names = ("carrier", "reference", "tracking_number", "event")
    sold = json.dumps({name: getattr(SOLD, name) for name in names} | {"shipment_id": "s1"})
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text(f"{sold}\n{sold[:20]}")
    assert read_ledger(ledger) == [SOLD]
    ledger.write_text(f"{sold[:20]}\n{sold}\n")
    with pytest.raises(json.JSONDecodeError):
        read_ledger(ledger)
