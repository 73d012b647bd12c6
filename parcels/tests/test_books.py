"""What a carrier has sold against what we know: the pure comparison, and what becomes of extras."""

import logging
from typing import Any

import psycopg
import pytest

from carriers.messages import Purchase
from carriers.shapes import documents
from deploy.stores import PostgresServer
from parcels.books.compare import Comparison, Extra, Ours, compare
from parcels.models import (
    Announcement,
    Attempt,
    Parcel,
    SpareLabel,
    SpareState,
    State,
    TrackingEvent,
)
from parcels.models.announcement import OPEN
from parcels.services.spares import note_spares
from parcels.tests.factories import AnnouncementFactory, LabelledParcelFactory

KEPT = Purchase("P1", "c1", "T1")
SECOND = Purchase("P1", "c1", "T2")
THIRD = Purchase("P1", "c3", "T3")
NONE_KEPT = (State.FAILED, State.CANCELLED, State.VOIDED)

SPELLED = Purchase("P1", "c1", "T-1")
BY_ID = Ours("P1", State.ANNOUNCED, "T1", 7, "c1")


def ours(state: str, number: str = "T1") -> Ours:
    return Ours("P1", state, number, 7)


TABLE: list[tuple[list[Purchase], Ours | None, tuple[int, int, list[Purchase]], str]] = [
    ([], None, (0, 0, []), "nothing on either side"),
    ([KEPT], ours(State.ANNOUNCED), (0, 0, []), "as it should be"),
    ([KEPT, KEPT], ours(State.ANNOUNCED), (0, 0, []), "a line twice is a label once"),
    ([], ours(State.ANNOUNCED), (0, 1, []), "ours, and not sold"),
    ([KEPT, SECOND], ours(State.ANNOUNCED), (0, 0, [SECOND]), "sold twice, with one id"),
    ([SECOND, KEPT, THIRD], ours(State.ANNOUNCED), (0, 0, [SECOND, THIRD]), "the first isn't ours"),
    ([SECOND], ours(State.ANNOUNCED), (0, 1, [SECOND]), "another label than ours"),
    ([KEPT], ours(State.ANNOUNCED, ""), (0, 1, []), "which is ours can't be told"),
    ([SPELLED], BY_ID, (0, 0, []), "its number is spelled in another way"),
    ([SPELLED, THIRD], BY_ID, (0, 0, [THIRD]), "and another is sold"),
    ([SPELLED], ours(State.ANNOUNCED), (0, 1, [SPELLED]), "where ids are shared: another label"),
    ([KEPT], None, (1, 0, []), "no such reference"),
    ([KEPT, SECOND], None, (2, 0, []), "each of them"),
    *[([KEPT], ours(state), (0, 0, []), "open: not ours to judge yet") for state in OPEN],
    *[([], ours(state), (0, 0, []), "nothing was sold") for state in (*OPEN, *NONE_KEPT)],
    *[([KEPT, SECOND], ours(state), (0, 0, [KEPT, SECOND]), "none to keep") for state in NONE_KEPT],
]


@pytest.mark.parametrize(("sold", "known", "expected", "remark"), TABLE)
def test_compare(
    sold: list[Purchase], known: Ours | None, expected: tuple[int, int, list[Purchase]], remark: str
) -> None:
    found = compare(sold, {known.reference: known} if known else {})
    extra = [each.sold for each in found.extra]
    assert (len(found.not_ours), len(found.not_sold), extra) == expected, remark


def test_references_are_compared_one_by_one() -> None:
    other = Ours("P2", State.FAILED, "", 8)
    label = Purchase("P2", "c", "T1")
    found = compare([KEPT, label], {"P1": ours(State.ANNOUNCED), "P2": other})
    assert found == Comparison([], [], [Extra(other, label)], [])


@pytest.mark.parametrize("state", State.values)
def test_a_label_under_review_is_nothing_else(state: str) -> None:
    found = compare([KEPT, SECOND], {"P1": ours(state)})
    assert [each.sold for each in found.under_review] == (
        [KEPT, SECOND] if state == State.NEEDS_REVIEW else []
    )


def extra_of(row: Announcement, number: str) -> Extra:
    known = Ours(row.reference, row.state, row.parcel.tracking_number, row.pk)
    return Extra(known, Purchase(row.reference, f"id-{number}", number))


@pytest.mark.django_db
def test_spares_are_noted_once_and_said_aloud(caplog: pytest.LogCaptureFixture) -> None:
    row = AnnouncementFactory.create(state=State.ANNOUNCED, parcel=LabelledParcelFactory.create())
    first, second = extra_of(row, "T2"), extra_of(row, "T3")
    assert note_spares([first, first], "lookup") == 1
    SpareLabel.objects.update(state=SpareState.GONE)
    assert note_spares([first, second], "invoice") == 1
    assert note_spares([], "invoice") == 0
    assert set(
        SpareLabel.objects.values_list("tracking_number", "carrier_id", "source", "state")
    ) == {
        ("T2", "id-T2", "lookup", "gone"),
        ("T3", "id-T3", "invoice", "open"),
    }
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 2
    assert "T3" in errors[1]
    assert row.reference in errors[1]


def test_the_columns_hold_what_adapters_pass_on() -> None:
    def widths(*columns: tuple[Any, str]) -> set[int]:
        return {model._meta.get_field(name).max_length for model, name in columns}

    assert widths(
        (Announcement, "carrier_id"), (Attempt, "carrier_id"), (SpareLabel, "carrier_id")
    ) == {documents.LONGEST_CARRIER_ID}
    assert widths(
        (Parcel, "tracking_number"),
        (Attempt, "tracking_number"),
        (SpareLabel, "tracking_number"),
        (TrackingEvent, "tracking_number"),
    ) == {documents.LONGEST_TRACKING_NUMBER}
    assert widths((Announcement, "error"), (Attempt, "detail"), (Parcel, "carrier_error")) == {
        documents.LONGEST_REFUSAL
    }


@pytest.mark.integration
def test_postgresql_stores_what_adapters_pass_on(postgresql: PostgresServer) -> None:
    """What carriers.adapters.tests.test_any_text takes for storable, asked of PostgreSQL itself."""
    odd = ["\0", "\ud800", "\n", "\x85", "\uffff", "\u202e", "😀", "é"]
    texts = [*odd, *("x" + text + "y" for text in odd), "😀" * 64, "é" * 65, "😀" * 600]
    with psycopg.connect(postgresql.create_database("columns"), autocommit=True) as connection:
        connection.execute("CREATE TABLE label (number varchar(64), message varchar(500))")
        stored = 0
        for text in texts:
            try:
                number = documents.identifier(text, "the number", 64)
            except documents.CarrierAnswerUnreadable:
                number = ""
            refused = documents.refused("C", text)
            connection.execute("INSERT INTO label VALUES (%s, %s)", [number, refused.message])
            stored += number != ""
    assert 0 < stored < len(texts)
