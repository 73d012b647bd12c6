"""Each invariant shown red on journals that were made to break it, and green on sound ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadtests.faults.invariants import check
from loadtests.faults.journals import AnnouncementRow, Booking, Journals, ParcelRow, Told

PARCEL = {"id": 1, "order_number": "one", "tracking_number": "T1"}
TOLD = Told("one", 0, 10.0, True, False, 11.0, 200, [PARCEL])
ROW = AnnouncementRow(1, 1, "postnl", "R1", "announced", 1, "T1")
SOLD = Booking("postnl", "R1", "s1", "T1")


def sound() -> Journals:
    return Journals(
        told=[replace(TOLD)],
        parcels=[ParcelRow(1, 7, "one", 1000, "T1")],
        announcements=[ROW],
        ledger=[SOLD],
        accounts={0: 7, 1: 8},
    )


def broken(journals: Journals) -> set[str]:
    return {finding.invariant for finding in check(journals) if not finding.holds}


def test_sound_journals_hold() -> None:
    assert broken(sound()) == set()
    assert [finding.checked for finding in check(sound())] == [1] * 7


def test_a_lost_row() -> None:
    journals = sound()
    journals.told.append(replace(TOLD, parcels=[PARCEL | {"id": 9}]))
    assert broken(journals) == {"I1"}


def test_bought_twice_under_one_reference() -> None:
    journals = sound()
    journals.ledger.append(replace(SOLD, shipment="s2", tracking_number="T2"))
    assert broken(journals) == {"I2"}


def test_bought_twice_under_two_parcels_of_one_intent() -> None:
    journals = sound()
    journals.parcels.append(ParcelRow(2, 7, "one", 1000, "T2"))
    journals.announcements.append(
        replace(ROW, id=2, parcel=2, reference="R2", tracking_number="T2")
    )
    journals.ledger.append(Booking("postnl", "R2", "s2", "T2"))
    assert broken(journals) == {"I2"}


def test_a_voided_spare_is_no_second_purchase() -> None:
    journals = sound()
    spare = replace(SOLD, shipment="s2", tracking_number="T2")
    journals.ledger += [spare, replace(spare, event="voided")]
    assert broken(journals) == set()


@pytest.mark.parametrize("state", ["pending", "announcing", "unknown"])
def test_a_row_that_never_ends(state: str) -> None:
    journals = sound()
    journals.announcements = [replace(ROW, state=state)]
    assert broken(journals) == {"I3"}


def test_a_parked_row_is_an_end() -> None:
    journals = sound()
    journals.announcements = [replace(ROW, state="needs_review")]
    assert broken(journals) == set()


def test_a_parcel_that_nothing_announces() -> None:
    journals = sound()
    journals.parcels.append(ParcelRow(2, 7, "two", 1001, ""))
    assert broken(journals) == {"I3"}


def test_a_label_that_was_never_sold() -> None:
    journals = sound()
    journals.ledger = [replace(SOLD, tracking_number="T9")]
    assert broken(journals) == {"I4"}


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
