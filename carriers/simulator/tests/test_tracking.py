import pytest

from carriers.simulator.bookings import Bookings
from carriers.simulator.catalogue import CATALOGUE
from carriers.simulator.ledger import Ledger
from carriers.simulator.parcel import parcel_from
from carriers.simulator.tests.clients import RECEIVER
from carriers.simulator.tracking import JOURNEY, Tracking

STEP = 10.0


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


async def book(bookings, reference="r1"):
    return await bookings.book(
        CATALOGUE["tortoise"], parcel_from(reference, 10, 2000, RECEIVER), "call"
    )


def statuses(tracking):
    return [event.status for event in tracking.events(0, 1000)]


async def test_a_parcel_goes_one_stage_per_step(path):
    ledger = Ledger(path)
    bookings = Bookings(ledger)
    tracking = Tracking(bookings, STEP)
    booking = await book(bookings)
    tracking.announced(booking)
    seen = []
    for steps in range(8):
        tracking.run_due(booking.at + steps * STEP + 1)
        seen.append(statuses(tracking)[-1])
    assert tuple(seen[:6]) == JOURNEY
    assert statuses(tracking) == list(JOURNEY)
    await ledger.close()


async def test_advancing_by_hand_does_not_make_the_clock_repeat_a_stage(path):
    ledger = Ledger(path)
    bookings = Bookings(ledger)
    tracking = Tracking(bookings, STEP)
    booking = await book(bookings)
    tracking.announced(booking)
    assert tracking.advance(booking)
    tracking.run_due(booking.at + STEP + 1)
    assert statuses(tracking) == [1, 22]
    tracking.run_due(booking.at + 2 * STEP + 1)
    assert statuses(tracking) == [1, 22, 3]
    while tracking.advance(booking):
        pass
    assert statuses(tracking) == list(JOURNEY)
    await ledger.close()


async def test_a_step_of_zero_leaves_parcels_where_they_are(path):
    ledger = Ledger(path)
    bookings = Bookings(ledger)
    tracking = Tracking(bookings, 0)
    booking = await book(bookings)
    tracking.announced(booking)
    tracking.run_due(booking.at + 1e9)
    assert statuses(tracking) == [1]
    await ledger.close()


async def test_a_voided_parcel_stays(path):
    ledger = Ledger(path)
    bookings = Bookings(ledger)
    tracking = Tracking(bookings, STEP)
    booking = await book(bookings)
    tracking.announced(booking)
    await bookings.void(booking)
    tracking.run_due(booking.at + 1000)
    assert not tracking.advance(booking)
    assert statuses(tracking) == [1]
    await ledger.close()


async def test_events_are_paged_and_their_numbers_go_on_after_a_restart(path):
    ledger = Ledger(path)
    bookings = Bookings(ledger)
    tracking = Tracking(bookings, STEP)
    for number in range(5):
        tracking.announced(await book(bookings, f"r{number}"))
    first = tracking.events(0, 2)
    rest = tracking.events(first[-1].seq, 100)
    assert (len(first), len(rest)) == (2, 3)
    assert tracking.events(rest[-1].seq, 100) == []

    again = Tracking(bookings, STEP)
    again.run_due(rest[-1].at + STEP + 1)
    later = again.events(rest[-1].seq, 100)
    assert [event.status for event in later] == [22] * 5
    await ledger.close()


@pytest.mark.parametrize(("stage", "voided", "told"), [(5, False, [11]), (3, False, [91]),
                                                       (0, False, []), (5, True, [])])  # fmt: skip
async def test_after_a_restart_each_parcel_says_where_it_is(path, stage, voided, told):
    """Of one at its end no other event comes: it was never delivered."""
    ledger = Ledger(path)
    bookings = Bookings(ledger)
    booking = await book(bookings)
    if voided:
        await bookings.void(booking)
    booking.at -= stage * STEP
    tracking = Tracking(bookings, STEP)
    assert statuses(tracking) == told
    assert [event.at for event in tracking.events(0, 9)] == [booking.at + stage * STEP] * len(told)
    await ledger.close()
