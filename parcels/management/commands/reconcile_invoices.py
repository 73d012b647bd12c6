"""Compare the carriers' invoice lists with our rows, daily: docs/operations.md."""

import http.client
import sys
import urllib.request
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils import timezone

from carriers import registry
from carriers.messages import Purchase
from parcels.books.compare import Check, Comparison
from parcels.books.invoice import BadInvoice, read
from parcels.models import State
from parcels.services.spares import note_spares

# One query each. A million lines are a thousand of them.
LINES_AT_ONCE = 1_000
# Seconds without a byte.
TIME_OUT = 30.0
# As the carriers' transports: no proxies from the environment.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))

NOT_OURS = "sold and not ours"
NOT_SOLD = "ours and not sold"
TWICE = "sold twice"
UNDER_REVIEW = "sold and under review"
OLDER = "ours and older than the list"


class Command(BaseCommand):
    help = (
        "Compare carriers' invoice lists (CSV) with our announcements. "
        "Exit status 1 if something differs, 2 if a list or the database can't be read."
    )
    # A check that fails would end it with 1, which says that something differs.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "sources", nargs="+", metavar="FILE|URL", help="invoice lists; - is stdin"
        )
        parser.add_argument("--carrier", required=True, choices=[*registry.CARRIERS])
        days = "day of ends to compare; default: from the lists"
        parser.add_argument("--from", dest="since", type=date.fromisoformat, help=f"first {days}")
        parser.add_argument("--to", dest="until", type=date.fromisoformat, help=f"last {days}")
        parser.add_argument(
            "--void", action="store_true", help="void the labels that were sold beside ours"
        )

    def handle(
        self,
        *args: Any,
        sources: list[str],
        carrier: str,
        since: date | None,
        until: date | None,
        void: bool,
        **options: Any,
    ) -> None:
        books = Books(carrier, since, until, void)
        try:
            for finding in books.findings(sources):
                self.stdout.write(f"{carrier}: {finding}")
        except (BadInvoice, OSError, http.client.HTTPException) as error:
            raise CommandError(f"{carrier}: {books.source}: {error}", returncode=2) from error
        except DatabaseError as error:
            # The lines below the first quote rows.
            reason = str(error).partition("\n")[0]
            raise CommandError(f"{carrier}: the database: {reason}", returncode=2) from error
        self.stdout.write(f"{carrier}: {books.summary()}")
        if any(books.counts[group] for group in (NOT_OURS, NOT_SOLD, TWICE, UNDER_REVIEW)):
            sys.exit(1)


class Books:
    """One carrier's lists against our rows."""

    def __init__(self, carrier: str, since: date | None, until: date | None, void: bool) -> None:
        self.counts = Counter[str]()
        self.source = ""
        self._check = Check(carrier)
        self._first, self._last = since, until
        self._days: set[date] = set()
        self._void = void
        # A list can't have what was sold after it was asked for.
        self._began = timezone.now()

    def findings(self, sources: list[str]) -> Iterator[str]:
        """Compare the lists and yield a line for each difference."""
        live = self._live(sources)
        while batch := list(islice(live, LINES_AT_ONCE)):
            yield from self._sold(self._check.compare(batch))
        yield from self._not_sold()

    def summary(self) -> str:
        """Return the counts in a line."""
        groups = (NOT_OURS, NOT_SOLD, TWICE, UNDER_REVIEW, "queued to be voided")
        counted = ", ".join(f"{self.counts[group]} {group}" for group in groups)
        return f"{self.counts['live']} live labels; {counted}"

    def _live(self, sources: list[str]) -> Iterator[Purchase]:
        for source in sources:
            self.source = source
            for line in read(_lines(source)):
                self._days.add(line.day)
                if not line.credited:
                    self.counts["live"] += 1
                    yield line.sold

    def _sold(self, found: Comparison) -> Iterator[str]:
        for label in found.not_ours:
            yield self._note(NOT_OURS, label, "no announcement has this reference")
        for each in found.extra:
            twice = each.ours.state == State.ANNOUNCED
            remark = f"ours is {each.ours.tracking_number}" if twice else f"it is {each.ours.state}"
            yield self._note(TWICE if twice else NOT_OURS, each.sold, remark)
        for each in found.under_review:
            remark = f"announcement {each.ours.announcement}"
            yield self._note(UNDER_REVIEW, each.sold, remark)
        if self._void:
            self.counts["queued to be voided"] += note_spares(found.extra, "invoice")

    def _not_sold(self) -> Iterator[str]:
        today = self._began.date()
        first = self._first or min((day for day in self._days if day <= today), default=None)
        last = self._last or max(self._days, default=None)
        if first is None or last is None:
            raise BadInvoice(
                "the list has no day until today: say with --from and --to which days it is about"
            )
        last = min(last, today)
        if first > last:
            raise BadInvoice(f"there is no day to compare from {first} to {last}")
        period = _midnight(first), min(_midnight(last) + timedelta(days=1), self._began)
        listed = _midnight(min(self._days | {first}))
        not_sold = self._check.not_sold(*period, date_created__gte=listed)
        older = self._check.not_sold(*period, date_created__lt=listed)
        for group, rows in ((NOT_SOLD, not_sold), (OLDER, older)):
            for row in rows:
                label = Purchase(row.reference, "", row.tracking_number)
                yield self._note(group, label, f"announcement {row.announcement}")

    def _note(self, group: str, label: Purchase, remark: str) -> str:
        self.counts[group] += 1
        return f"{group}: {label.reference} {label.tracking_number} ({remark})"


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _lines(source: str) -> Iterator[bytes]:
    """Read a list's lines from stdin, a URL or a file."""
    if source == "-":
        yield from sys.stdin.buffer
    elif source.startswith(("http://", "https://")):
        with closing(_DIRECT.open(source, timeout=TIME_OUT)) as answer:
            yield from answer
            if answer.length:
                # A body that ends too soon is no error to http.client, when it is read by lines.
                raise http.client.IncompleteRead(b"", answer.length)
    else:
        with open(source, "rb") as file:
            yield from file
