"""The daily check: the command on lists, and on a simulator's own."""

import asyncio
import io
import json
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError

from carriers.simulator.tests.process import buy, carrier_state, simulator_process
from parcels.books.compare import Check
from parcels.books.invoice import BadInvoice, read
from parcels.models import Announcement, SpareLabel, SpareState, State
from parcels.tests.factories import AnnouncementFactory, LabelledParcelFactory, ParcelFactory

pytestmark = pytest.mark.django_db
HEADER = "reference,label_id,tracking_number,price,date,credited"
TODAY = datetime.now(UTC).date()


def announced(number: str, carrier: str = "tortoise", **changes: Any) -> Announcement:
    parcel = LabelledParcelFactory.create(carrier=carrier, tracking_number=number)
    now = datetime.now(UTC)
    row = AnnouncementFactory.create(
        parcel=parcel, state=State.ANNOUNCED, date_ended=now, **changes
    )
    return Announcement.objects.get(pk=row.pk)


def line(reference: str, number: str, credited: str = "no", day: date = TODAY) -> str:
    return f"{reference},id-{number},{number},4.25,{day},{credited}"


class Lists:
    """Writes lists and runs the command on them."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "invoice.csv"

    def check(self, *lines: str, **options: Any) -> tuple[int, list[str]]:
        self.path.write_text("\n".join([HEADER, *lines]) + "\n")
        return run(str(self.path), carrier="tortoise", **options)


def run(*sources: str, **options: Any) -> tuple[int, list[str]]:
    """Run the command; return its exit status and its lines."""
    said = io.StringIO()
    try:
        call_command("reconcile_invoices", *sources, stdout=said, **options)
    except SystemExit as end:
        return int(str(end.code)), said.getvalue().splitlines()
    return 0, said.getvalue().splitlines()


@pytest.fixture
def lists(tmp_path: Path) -> Lists:
    return Lists(tmp_path)


def test_what_agrees_is_said_in_one_line(lists: Lists) -> None:
    row = announced("T1")
    cancelled = AnnouncementFactory.create(
        parcel=ParcelFactory.create(carrier="tortoise"), state=State.VOIDED
    )
    assert lists.check(line(row.reference, "T1"), line(cancelled.reference, "T2", "yes")) == (
        0,
        [
            "tortoise: 1 live labels; 0 sold and not ours, 0 ours and not sold, 0 sold twice, "
            "0 sold and under review, 0 queued to be voided"
        ],
    )


def test_each_difference_is_named(lists: Lists) -> None:
    twice, unsold = announced("T1"), announced("T3")
    announced("C1", carrier="colibri")
    failed = AnnouncementFactory.create(
        parcel=ParcelFactory.create(carrier="tortoise"), state=State.FAILED
    )
    status, said = lists.check(
        line(twice.reference, "T1"),
        line(failed.reference, "T4"),
        line("STRANGE", "T5"),
        line(twice.reference, "T2"),
    )
    assert status == 1
    assert said == [
        "tortoise: sold and not ours: STRANGE T5 (no announcement has this reference)",
        f"tortoise: sold and not ours: {failed.reference} T4 (it is failed)",
        f"tortoise: sold twice: {twice.reference} T2 (ours is T1)",
        f"tortoise: ours and not sold: {unsold.reference} T3 (announcement {unsold.pk})",
        "tortoise: 4 live labels; 2 sold and not ours, 1 ours and not sold, 1 sold twice, "
        "0 sold and under review, 0 queued to be voided",
    ]
    assert not SpareLabel.objects.exists()


def test_extras_are_queued_once(lists: Lists) -> None:
    row = announced("T1")
    lines = [line(row.reference, "T1"), line(row.reference, "T2"), line("STRANGE", "T5")]
    assert lists.check(*lines, void=True)[1][-1].endswith("1 queued to be voided")
    assert lists.check(*lines, void=True)[1][-1].endswith("0 queued to be voided")
    spare = SpareLabel.objects.get()
    assert (spare.announcement_id, spare.tracking_number, spare.carrier_id, spare.source) == (
        row.pk,
        "T2",
        "id-T2",
        "invoice",
    )


@pytest.mark.parametrize("state", [SpareState.KEPT, SpareState.GONE])
def test_a_closed_spare_that_is_listed_an_hour_later_is_queued_again(
    lists: Lists, state: SpareState
) -> None:
    """Kept: as the label of an announcement that was voided since."""
    row = announced("T1")
    Announcement.objects.filter(pk=row.pk).update(state=State.VOIDED)
    spare = SpareLabel.objects.create(
        announcement=row, tracking_number="T1", source="answer", state=state,
        date_ended=datetime.now(UTC) - timedelta(minutes=59),
    )  # fmt: skip
    lists.check(line(row.reference, "T1"), void=True)
    spare.refresh_from_db()
    assert spare.state == state
    SpareLabel.objects.update(date_ended=datetime.now(UTC) - timedelta(minutes=61))
    _, said = lists.check(line(row.reference, "T1"), void=True)
    assert said[-1].endswith("1 queued to be voided")
    spare.refresh_from_db()
    assert (spare.state, spare.source, spare.date_ended) == (SpareState.OPEN, "invoice", None)


def test_labels_of_one_reference_may_lie_far_apart(
    lists: Lists, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parcels.management.commands.reconcile_invoices.LINES_AT_ONCE", 1)
    row = announced("T1")
    _, said = lists.check(line(row.reference, "T1"), line(row.reference, "T2"))
    assert [text for text in said if "not sold:" in text] == []
    assert f"tortoise: sold twice: {row.reference} T2 (ours is T1)" in said


def announced_in(number: str, created: int, ended: int) -> Announcement:
    """Return one that was created and ended so many days ago."""
    made = announced(number)
    now = datetime.now(UTC)
    Announcement.objects.filter(pk=made.pk).update(
        date_created=now - timedelta(days=created), date_ended=now - timedelta(days=ended)
    )
    return made


def test_only_what_began_and_ended_in_the_lists_days_is_missed(lists: Lists) -> None:
    announced_in("T1", 3, 3)
    inside = announced_in("T2", 1, 1)
    before = announced_in("T3", 2, 1)
    announced_in("T4", 1, 0)
    yesterday = TODAY - timedelta(days=1)
    _, said = lists.check(line("STRANGE", "T9", day=yesterday))
    assert [text.split()[5] for text in said if "not sold:" in text] == [inside.reference]
    assert (
        f"tortoise: ours and older than the list: {before.reference} T3 (announcement {before.pk})"
        in said
    )
    assert lists.check(since=yesterday, until=yesterday)[0] == 1
    _, said = lists.check(since=TODAY - timedelta(days=5), until=TODAY)
    assert len([text for text in said if "not sold:" in text]) == 4


def test_what_lived_longer_than_the_days_is_missed_where_the_list_reaches_back(
    lists: Lists,
) -> None:
    """As one that was adopted after a review, by a number that the carrier never sold."""
    row = announced_in("T1", 3, 1)
    days = {"since": TODAY - timedelta(days=2), "until": TODAY - timedelta(days=1)}
    status, said = lists.check(line("P1", "T9", "yes", TODAY - timedelta(days=3)), **days)
    assert status == 1
    assert said[0] == (f"tortoise: ours and not sold: {row.reference} T1 (announcement {row.pk})")
    assert lists.check(line("P1", "T9", "yes", TODAY - timedelta(days=2)), **days)[0] == 0


def test_a_label_under_review_is_named_and_not_voided(lists: Lists) -> None:
    row = announced("")
    Announcement.objects.filter(pk=row.pk).update(state=State.NEEDS_REVIEW, date_ended=None)
    status, said = lists.check(line(row.reference, "T1"), void=True)
    assert status == 1
    assert said == [
        f"tortoise: sold and under review: {row.reference} T1 (announcement {row.pk})",
        "tortoise: 1 live labels; 0 sold and not ours, 0 ours and not sold, 0 sold twice, "
        "1 sold and under review, 0 queued to be voided",
    ]
    assert not SpareLabel.objects.exists()


def test_a_list_may_come_by_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    row = announced("T1")
    text = f"\ufeff{HEADER}\r\n{line(row.reference, 'T1')}\r\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run("-", carrier="tortoise")[0] == 0


GOOD = line("P1", "T1")
BAD = [
    ("", "line 1: the header has no reference"),
    ("reference,price\n", "line 1: the header has no label_id"),
    (f"{HEADER}\n{GOOD}\nP1,id\n", "line 3: it has not as many fields"),
    (f"{HEADER}\n{GOOD},more\n", "line 2: it has not as many fields"),
    (f"{HEADER}\n{GOOD.replace('4.25', 'x')}\n", "line 2: the price is no number"),
    (f"{HEADER}\n{GOOD.replace('no', 'maybe')}\n", "line 2: credited is neither"),
    (f"{HEADER}\n{GOOD.replace(str(TODAY), '1.2.26')}\n", "line 2: Invalid isoformat"),
    (f"{HEADER}\n{line('P1', 'x' * 65)}\n", "line 2: the tracking number is unusable"),
    (f"{HEADER}\n{line('', 'T1')}\n", "line 2: the reference is missing"),
    (f'{HEADER}\n{GOOD}\n"\n', "line 3: unexpected end of data"),
    (f"{HEADER}\n{GOOD}\n\xff\n", "line 3: it is not UTF-8"),
    (f"{HEADER}\n{GOOD.replace('T1', 'T' + chr(0))}\n", "line 2: "),
]


@pytest.mark.parametrize(("text", "named"), BAD)
def test_a_bad_line_is_named(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "invoice.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(CommandError, match=named) as caught:
        run(str(path), carrier="tortoise")
    assert caught.value.returncode == 2
    assert str(path) in str(caught.value)


def test_trouble_with_the_database_is_no_difference(
    lists: Lists, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: Any) -> None:
        raise OperationalError("canceling statement due to statement timeout\nDETAIL: Jane Doe")

    monkeypatch.setattr(Check, "compare", end)
    with pytest.raises(CommandError, match=r"the database: .* statement timeout$") as caught:
        lists.check(GOOD)
    assert caught.value.returncode == 2


@pytest.mark.parametrize(
    ("sources", "options", "named"),
    [
        (["x.csv"], {"carrier": "hare"}, "invalid choice: 'hare'"),
        (["x.csv"], {}, "required: --carrier"),
        ([], {"carrier": "tortoise"}, "required: FILE"),
        (["/nowhere.csv"], {"carrier": "tortoise"}, "/nowhere.csv"),
    ],
)
def test_a_wrong_use_is_named(sources: list[str], options: dict[str, Any], named: str) -> None:
    with pytest.raises(CommandError, match=named):
        run(*sources, **options)


def test_an_empty_list_needs_its_days(lists: Lists) -> None:
    with pytest.raises(CommandError, match="--from and --to"):
        lists.check()


def test_a_list_of_days_to_come_needs_its_days(lists: Lists) -> None:
    """As one whose time zone is ahead: "no day from tomorrow to today" explains nothing."""
    with pytest.raises(CommandError, match=r"no day until today: .* --from and --to"):
        lists.check(line("P1", "T1", "yes", TODAY + timedelta(days=2)))


@pytest.mark.parametrize(
    "days", [{"since": TODAY, "until": TODAY - timedelta(days=1)}, {"since": TODAY}]
)
def test_a_period_without_a_day_agrees_with_nothing(lists: Lists, days: dict[str, date]) -> None:
    """As a cron line's --from and --to in each other's place: nothing was compared."""
    announced("T1")
    old = announced("T2")
    with pytest.raises(CommandError, match="no day") as error:
        lists.check(line(old.reference, "T2", day=TODAY - timedelta(days=1)), **days)
    assert error.value.returncode == 2


def test_a_list_with_the_calendars_last_day_is_compared_until_today(lists: Lists) -> None:
    ours = announced("T1")
    said = line(ours.reference, "T1", day=date.max)
    assert lists.check(said, since=TODAY)[0] == 0


def test_a_long_list_is_not_held(lists: Lists) -> None:
    """20,000 lines are 1 MB as text, and five times that as objects."""

    def lines() -> Iterator[bytes]:
        yield f"{HEADER}\n".encode()
        for number in range(20_000):
            yield f"{line(f'P{number}', f'T{number}')}\n".encode()

    tracemalloc.start()
    count = sum(1 for _ in read(lines()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 20_000
    assert peak < 500_000


def test_lines_before_a_bad_one_are_read() -> None:
    read_lines = read([f"{HEADER}\n".encode(), f"{GOOD}\n".encode(), b"x\n"])
    assert next(read_lines).sold.reference == "P1"
    with pytest.raises(BadInvoice, match="line 3"):
        next(read_lines)


class Cut(BaseHTTPRequestHandler):
    """Promises more than it sends."""

    def do_GET(self) -> None:
        body = f"{HEADER}\n{GOOD}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body) + 9))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.mark.integration
def test_a_list_that_ends_too_soon_is_no_list() -> None:
    """Taken for a whole one, it would show what is missing in it as never sold."""
    server = HTTPServer(("127.0.0.1", 0), Cut)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    try:
        with pytest.raises(CommandError, match="9 more expected"):
            run(f"http://127.0.0.1:{server.server_port}/list.csv", carrier="tortoise")
    finally:
        thread.join()
        server.server_close()


@pytest.mark.integration
def test_against_a_simulator(tmp_path: Path) -> None:
    """Sold twice, sold and unknown to us, ours and never sold; then by its days."""

    async def sell(*references: str) -> dict[str, list[str]]:
        async with aiohttp.ClientSession() as session:
            url = (await carrier_state(session, control, "tortoise"))["url"]
            for reference in references:
                assert await buy(session, url, reference)
        numbers: dict[str, list[str]] = {}
        for entry in map(json.loads, ledger.read_text().splitlines()):
            numbers.setdefault(entry["reference"], []).append(entry["tracking_number"])
        return numbers

    runner, ledger = asyncio.Runner(), tmp_path / "ledger.jsonl"
    opened = simulator_process(ledger, {"SIMULATOR_LATENCY_TORTOISE": "0"})
    with runner:
        _, control = runner.run(opened.__aenter__())
        try:
            url = f"{control}/carriers/tortoise/invoice.csv"
            always = {"carrier": "tortoise", "since": date(2000, 1, 1), "until": TODAY}
            assert run(url, **always)[0] == 0
            numbers = runner.run(sell("PGOOD", "PTWICE", "PTWICE", "STRANGE"))
            announced(numbers["PGOOD"][0], reference="PGOOD")
            announced(numbers["PTWICE"][0], reference="PTWICE")
            announced("TP9", reference="PUNSOLD")
            status, said = run(url, **always, void=True)
            assert status == 1
            found = [text.split(" (")[0] for text in said]
            assert set(found[:-1]) == {
                f"tortoise: sold and not ours: STRANGE {numbers['STRANGE'][0]}",
                f"tortoise: sold twice: PTWICE {numbers['PTWICE'][1]}",
                "tortoise: ours and not sold: PUNSOLD TP9",
            }
            assert SpareLabel.objects.get().tracking_number == numbers["PTWICE"][1]
            assert run(url, carrier="tortoise")[1] == [
                text.replace("1 queued", "0 queued") for text in said
            ]
            with pytest.raises(CommandError, match="404"):
                run(f"{url}x", carrier="tortoise")
        finally:
            runner.run(opened.__aexit__(None, None, None))
    with pytest.raises(CommandError, match="refused"):
        run(url, **always)
