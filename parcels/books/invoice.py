"""Read the list of labels that comes with a carrier's invoice: CSV, line by line."""

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date

from carriers.errors import CarrierAnswerUnreadable
from carriers.messages import Purchase
from carriers.shapes.documents import (
    LONGEST_CARRIER_ID,
    LONGEST_TRACKING_NUMBER,
    amount,
    identifier,
)

HEADER = ("reference", "label_id", "tracking_number", "price", "date", "credited")
# A reference that isn't ours may have any length that carriers take.
LONGEST_REFERENCE = 128


class BadInvoice(Exception):
    """The list can't be read; the message names the line."""


@dataclass(frozen=True, slots=True)
class Line:
    """A label that was sold on a day; `credited` when the carrier has taken it back."""

    sold: Purchase
    day: date
    credited: bool


def read(raw: Iterable[bytes]) -> Iterator[Line]:
    """Read a list from its lines as bytes; raise BadInvoice at the first that makes no sense."""
    rows = csv.DictReader(_decoded(raw), restkey="", strict=True)
    try:
        if missing := [name for name in HEADER if name not in (rows.fieldnames or ())]:
            raise BadInvoice(f"line 1: the header has no {', '.join(missing)}")
        for row in rows:
            yield _line(row)
    except (csv.Error, ValueError, CarrierAnswerUnreadable) as error:
        raise BadInvoice(f"line {rows.reader.line_num}: {error}") from error


def _decoded(raw: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(raw, 1):
        try:
            # With or without the mark that spreadsheets begin with.
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise BadInvoice(f"line {number}: it is not UTF-8") from None


def _line(row: Mapping[str, str | None]) -> Line:
    if "" in row or None in row.values():
        raise ValueError("it has not as many fields as the header")
    if row["credited"] not in ("yes", "no"):
        raise ValueError("credited is neither yes nor no")
    amount(row["price"], "the price")
    sold = Purchase(
        identifier(row["reference"], "the reference", LONGEST_REFERENCE),
        identifier(row["label_id"], "the label's id", LONGEST_CARRIER_ID),
        identifier(row["tracking_number"], "the tracking number", LONGEST_TRACKING_NUMBER),
    )
    return Line(sold, date.fromisoformat(str(row["date"])), row["credited"] == "yes")
