import asyncio
import json
import os
import threading

import pytest

from carriers.simulator.bookings import Bookings, summary
from carriers.simulator.catalogue import CATALOGUE
from carriers.simulator.ledger import Ledger, LedgerError
from carriers.simulator.parcel import parcel_from
from carriers.simulator.tests.clients import RECEIVER


def append(ledger, reference="r1", event="booked"):
    return ledger.append(
        event,
        carrier="tortoise",
        reference=reference,
        shipment_id=f"id-{reference}",
        tracking_number=f"T-{reference}",
        product=10,
        price="4.25",
        by="call",
    )


def parcel(reference, product=10):
    return parcel_from(reference, product, 2000, RECEIVER)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "ledger.jsonl"


async def test_an_entry_is_in_the_file_when_append_returns(path):
    ledger = Ledger(path)
    await append(ledger)
    line = json.loads(path.read_text())
    assert line["seq"] == 1
    assert list(line) == [
        "seq",
        "at",
        "event",
        "carrier",
        "reference",
        "shipment_id",
        "tracking_number",
        "product",
        "price",
        "by",
        "owner",
    ]
    await ledger.close()


async def test_append_waits_for_fsync_and_one_serves_all_that_wait(path, monkeypatch):
    ledger = Ledger(path)
    synced = []
    fsync = os.fsync

    def watched(fd):
        fsync(fd)
        synced.append(path.read_text())

    monkeypatch.setattr(os, "fsync", watched)

    async def append_and_look(reference):
        entry = await append(ledger, reference)
        assert f'"{reference}"' in synced[-1]
        return entry

    entries = await asyncio.gather(*(append_and_look(f"r{n}") for n in range(500)))
    assert [entry.seq for entry in entries] == list(range(1, 501))
    assert len(synced[-1].splitlines()) == 500
    assert len(synced) < 10
    await ledger.close()


async def test_a_failed_write_leaves_whole_lines_and_the_next_one_works(path, monkeypatch):
    ledger = Ledger(path)
    await append(ledger, "r1")
    write = os.write

    def half(fd, data):
        write(fd, data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(LedgerError):
        await append(ledger, "r2")
    monkeypatch.undo()
    await append(ledger, "r3")
    await ledger.close()
    assert [entry.reference for entry in Ledger(path).entries] == ["r1", "r3"]


async def test_a_torn_last_line_is_dropped_and_a_broken_one_inside_is_refused(path):
    ledger = Ledger(path)
    await append(ledger, "r1")
    await append(ledger, "r2")
    await ledger.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    again = Ledger(path)
    assert [entry.reference for entry in again.entries] == ["r1"]
    assert (await append(again, "r3")).seq == 2
    await again.close()
    path.write_bytes(b"nonsense\n" + whole)
    with pytest.raises(LedgerError, match="line 1"):
        Ledger(path)


async def test_an_unknown_event_is_no_sale(path):
    ledger = Ledger(path)
    await append(ledger, event="refunded")
    await ledger.close()
    with pytest.raises(LedgerError, match="line 1"):
        Ledger(path)


async def test_a_second_simulator_on_the_same_file_is_refused(path):
    ledger = Ledger(path)
    with pytest.raises(LedgerError, match="in use"):
        Ledger(path)
    await ledger.close()
    await Ledger(path).close()


async def test_a_closed_ledger_takes_nothing(path):
    ledger = Ledger(path)
    await ledger.close()
    with pytest.raises(LedgerError):
        await append(ledger)


async def test_bookings_survive_a_restart(path):
    ledger = Ledger(path)
    bookings = Bookings(ledger)
    first = await bookings.book(CATALOGUE["colibri"], parcel("c1", 20), "call")
    second = await bookings.book(CATALOGUE["tortoise"], parcel("t1"), "call")
    assert await bookings.void(second)
    await ledger.close()

    ledger = Ledger(path)
    bookings = Bookings(ledger)
    again = await bookings.book(CATALOGUE["colibri"], parcel("c1", 20), "call")
    assert again.tracking_number == first.tracking_number
    assert bookings.live("tortoise", "t1") == []
    voided = bookings.by_tracking(second.tracking_number)
    assert voided is not None
    assert voided.voided
    assert len(ledger.entries) == 3
    await ledger.close()


async def test_without_a_lag_a_clock_that_is_set_back_hides_no_booking(path):
    ledger = Ledger(path)
    bookings = Bookings(ledger)
    booking = await bookings.book(CATALOGUE["tortoise"], parcel("t1"), "call")
    booking.at += 60
    assert bookings.live("tortoise", "t1") == [booking]
    assert bookings.live("tortoise", "t1", lag=1) == []
    await ledger.close()


async def test_owners_survive_a_restart_and_a_line_without_one_is_everybodys(path):
    ledger = Ledger(path)
    bookings = Bookings(ledger)
    await bookings.book(CATALOGUE["tortoise"], parcel("owned"), "call", "a")
    await bookings.book(CATALOGUE["tortoise"], parcel("old"), "call")
    await ledger.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[1].pop("owner") == ""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    ledger = Ledger(path)
    bookings = Bookings(ledger)
    seen = {
        owner: [len(bookings.live("tortoise", name, owner=owner)) for name in ("owned", "old")]
        for owner in ("a", "b", "")
    }
    assert seen == {"a": [1, 1], "b": [0, 1], "": [1, 1]}
    await ledger.close()


async def test_nothing_is_sold_that_the_ledger_could_not_keep(path, monkeypatch):
    ledger = Ledger(path)
    bookings = Bookings(ledger)

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for spec, product in ((CATALOGUE["tortoise"], 10), (CATALOGUE["colibri"], 20)):
        with pytest.raises(LedgerError):
            await bookings.book(spec, parcel("r1", product), "call")
    assert list(bookings.all()) == []
    monkeypatch.undo()
    assert await bookings.book(CATALOGUE["colibri"], parcel("r1", 20), "call")
    await ledger.close()


@pytest.mark.parametrize("kept", [True, False])
async def test_a_label_is_void_when_its_line_is_on_the_disk(path, monkeypatch, kept):
    """A second call waits meanwhile: its refusal would say that the first one was done."""
    ledger = Ledger(path)
    bookings = Bookings(ledger)
    booking = await bookings.book(CATALOGUE["colibri"], parcel("c1", 20), "call")
    writing, released = threading.Event(), threading.Event()

    def slow(fd):
        writing.set()
        released.wait(10)
        if not kept:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", slow)
    first = asyncio.create_task(bookings.void(booking))
    await asyncio.to_thread(writing.wait, 10)
    first.cancel()  # its line is written all the same
    second = asyncio.create_task(bookings.void(booking))
    await asyncio.sleep(0.05)
    assert (second.done(), bookings.live("colibri", "c1")) == (False, [booking])
    released.set()
    (outcome,) = await asyncio.gather(second, return_exceptions=True)
    assert isinstance(outcome, LedgerError) is not kept
    assert (booking.voided, outcome is False) == (kept, kept)
    await ledger.close()


async def test_the_ledger_keeps_nothing_of_the_receiver(path):
    ledger = Ledger(path)
    await Bookings(ledger).book(CATALOGUE["tortoise"], parcel("t1"), "call")
    text = path.read_text()
    assert not [value for value in RECEIVER.values() if len(value) > 2 and value in text]
    await ledger.close()


async def test_the_summary_finds_what_was_bought_twice_and_counts_the_money(path):
    ledger = Ledger(path)
    bookings = Bookings(ledger)
    for reference in ("twice", "once", "healed", "healed", "twice"):
        last = await bookings.book(CATALOGUE["tortoise"], parcel(reference), "call")
        if reference == "healed" and len(bookings.live("tortoise", "healed")) == 2:
            await bookings.void(last)
    sums = summary(bookings)["tortoise"]
    assert sums == {
        "booked": 5,
        "voided": 1,
        "references": 3,
        "double_booked": 1,
        "double_booked_references": ["twice"],
        "late_commits": 0,
        "spent": "17.00",
    }
    await ledger.close()


async def test_fifty_at_once_with_one_client_id_buy_one_label_where_the_carrier_dedups(path):
    ledger = Ledger(path)
    bookings = Bookings(ledger)

    async def fifty(spec, product):
        calls = (bookings.book(spec, parcel("same", product), "call") for _ in range(50))
        return {booking.tracking_number for booking in await asyncio.gather(*calls)}

    assert len(await fifty(CATALOGUE["colibri"], 20)) == 1
    assert len(bookings.live("colibri", "same")) == 1
    # The control: a carrier that doesn't dedup sells fifty.
    assert len(await fifty(CATALOGUE["tortoise"], 10)) == 50
    await ledger.close()


async def test_a_repeated_call_is_not_answered_before_the_first_one_is_on_the_disk(
    path, monkeypatch
):
    ledger = Ledger(path)
    bookings = Bookings(ledger)
    disk = threading.Event()
    monkeypatch.setattr(os, "fsync", lambda fd: disk.wait(10))
    calls = [
        asyncio.create_task(bookings.book(CATALOGUE["colibri"], parcel("same", 20), "call"))
        for _ in range(2)
    ]
    done, _ = await asyncio.wait(calls, timeout=0.1)
    disk.set()
    assert not done
    first, second = await asyncio.gather(*calls)
    assert first is second
    await ledger.close()


async def test_a_repeated_call_fails_with_the_first_one(path, monkeypatch):
    ledger = Ledger(path)
    bookings = Bookings(ledger)

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    calls = (bookings.book(CATALOGUE["colibri"], parcel("same", 20), "call") for _ in range(50))
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(result) for result in results} == {LedgerError}
    await ledger.close()
